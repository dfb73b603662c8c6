"""Triggers: which events a rule or a ledger wants to see, and the quick way from an event to those who do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dissectors import schemas
from dissectors.events import DeadlinePassed, RequestReceived, ResponseReceived

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trigger:
    """Events of these types; of frames only those of these APIs (none: all), and only well-read ones if not `broken`.

    If `irregular`, only frames in which something is out of the ordinary: oddities, an error, bytes left, a diagnosis,
    or what a ledger found remarkable.

    A `DeadlinePassed` goes to the rule that has its code, and to nobody else.
    """

    events: tuple[type, ...]
    apis: tuple[str, ...] = ()
    broken: bool = False
    irregular: bool = False


class Dispatch(Generic[T]):
    """Those who listen, by event type, API key and whether the frame reads well.

    Args:
        listeners: In the order in which they are to hear of an event; called once, at first use.
    """

    def __init__(self, listeners: Callable[[], Iterable[tuple[T, Trigger, str]]]) -> None:
        self._listeners = listeners
        self._chosen = functools.cache(self._choose)
        self._timed = functools.cache(self._by_code)

    def __call__(self, event: Any) -> tuple[T, ...]:
        """Who wants to see an event."""
        kind: Any = type(event)
        if kind is RequestReceived or kind is ResponseReceived:
            message = event.message
            if message is None:
                return self._chosen(kind, None, False, True)
            key = message.api_key if message.layout is not None else None  # keys off the wire must not fill the cache
            reads_well = message.reads_well and not event.damaged
            irregular = not reads_well or bool(message.oddities) or message.diagnosis is not None or message.remarkable
            return self._chosen(kind, key, reads_well, irregular)
        if kind is DeadlinePassed:
            return self._timed().get(event.code, ())
        return self._chosen(kind, None, True, True)

    def _choose(self, kind: Hashable, api_key: int | None, reads_well: bool, irregular: bool) -> tuple[T, ...]:
        name = schemas.api(api_key).name if api_key is not None else None  # type: ignore[union-attr]
        is_frame = kind in (RequestReceived, ResponseReceived)
        return tuple(
            listener
            for listener, trigger, _ in self._listeners()
            if kind in trigger.events
            and (not is_frame or not trigger.apis or name in trigger.apis)
            and (reads_well or trigger.broken)
            and (irregular or not trigger.irregular)
        )

    def _by_code(self) -> dict[str, tuple[T, ...]]:
        return {code: (listener,) for listener, trigger, code in self._listeners() if DeadlinePassed in trigger.events}
