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

    A `DeadlinePassed` goes to the rule that has its code, and to nobody else.
    """

    events: tuple[type, ...]
    apis: tuple[str, ...] = ()
    broken: bool = False


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
                return self._chosen(kind, None, False)
            key = message.api_key if message.layout is not None else None  # keys off the wire must not fill the cache
            return self._chosen(kind, key, message.reads_well and not event.damaged)
        if kind is DeadlinePassed:
            return self._timed().get(event.code, ())
        return self._chosen(kind, None, True)

    def _choose(self, kind: Hashable, api_key: int | None, reads_well: bool) -> tuple[T, ...]:
        name = schemas.api(api_key).name if api_key is not None else None  # type: ignore[union-attr]
        return tuple(
            listener
            for listener, trigger, _ in self._listeners()
            if kind in trigger.events and (not trigger.apis or name in trigger.apis) and (reads_well or trigger.broken)
        )

    def _by_code(self) -> dict[str, tuple[T, ...]]:
        return {code: (listener,) for listener, trigger, code in self._listeners() if DeadlinePassed in trigger.events}
