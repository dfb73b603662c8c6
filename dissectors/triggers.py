"""Triggers: which events a rule or a ledger wants to see, and the quick way from an event to those who do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, Generic, TypeVar

from dissectors import schemas
from dissectors.events import DeadlinePassed, RequestReceived, ResponseReceived
from dissectors.summary import errors

T = TypeVar("T")


class Only(IntFlag):
    """What is out of the ordinary in a frame: a rule that names one of these is asked about no other frames.

    IRREGULAR: oddities, an error, bytes left, a diagnosis, or what a ledger found remarkable. TAGGED: something in a
    tag buffer. FIRST: the first of its API, version and direction on its connection. UNPAIRED: a response that nobody
    asked for, or not in its turn. REFUSED: error codes other than 0. SASL: on a connection that spoke of SASL.
    """

    IRREGULAR = 1
    TAGGED = 2
    FIRST = 4
    UNPAIRED = 8
    REFUSED = 16
    SASL = 32


ANY = Only(0)


@dataclass(frozen=True, slots=True)
class Trigger:
    """Events of these types; of frames only those of these APIs (none: all), and only well-read ones if not `broken`.

    A `DeadlinePassed` goes to the rule that has its code, and to nobody else.
    """

    events: tuple[type, ...]
    apis: tuple[str, ...] = ()
    broken: bool = False
    only: Only = ANY


def marks_of(event: RequestReceived | ResponseReceived, *, first: bool, sasl: bool) -> int:
    """What is out of the ordinary in a frame, as bits of `Only`."""
    marks = Only.FIRST.value * first + Only.SASL.value * sasl
    message = event.message
    if message is None:
        return marks | _UNKNOWN
    reads_well = message.reads_well
    if not reads_well or message.oddities or event.damaged:
        marks |= _IRREGULAR
    if reads_well and message.tagged:
        marks |= _TAGGED
    if isinstance(event, ResponseReceived):
        if event.passed_over or event.request is None:
            marks |= _UNPAIRED
        if errors(message):
            marks |= _REFUSED
    return marks


_IRREGULAR, _TAGGED, _UNPAIRED, _REFUSED = (
    each.value for each in (Only.IRREGULAR, Only.TAGGED, Only.UNPAIRED, Only.REFUSED)
)
_UNKNOWN = _IRREGULAR | _UNPAIRED


class Dispatch(Generic[T]):
    """Those who listen, by event type, API key, whether the frame reads well, and what is out of the ordinary.

    Args:
        listeners: In the order in which they are to hear of an event; called once, at first use.
    """

    def __init__(self, listeners: Callable[[], Iterable[tuple[T, Trigger, str]]]) -> None:
        self._listeners = listeners
        self._chosen = functools.cache(self._choose)
        self._timed = functools.cache(self._by_code)

    def __call__(self, event: Any, marks: int) -> tuple[T, ...]:
        """Who wants to see an event; `marks` are those of a frame (`marks_of`)."""
        kind: Any = type(event)
        if kind is RequestReceived or kind is ResponseReceived:
            message = event.message
            if message is None:
                return self._chosen(kind, None, False, marks)
            key = message.api_key if message.layout is not None else None  # keys off the wire must not fill the cache
            return self._chosen(kind, key, message.reads_well and not event.damaged, marks)
        if kind is DeadlinePassed:
            return self._timed().get(event.code, ())
        return self._chosen(kind, None, True, 0)

    def _choose(self, kind: Hashable, api_key: int | None, reads_well: bool, marks: int) -> tuple[T, ...]:
        name = schemas.api(api_key).name if api_key is not None else None  # type: ignore[union-attr]
        is_frame = kind in (RequestReceived, ResponseReceived)
        return tuple(
            listener
            for listener, trigger, _ in self._listeners()
            if kind in trigger.events
            and (not is_frame or not trigger.apis or name in trigger.apis)
            and (reads_well or trigger.broken)
            and (not is_frame or not trigger.only or marks & trigger.only)
        )

    def _by_code(self) -> dict[str, tuple[T, ...]]:
        return {code: (listener,) for listener, trigger, code in self._listeners() if DeadlinePassed in trigger.events}
