"""Triggers: which events a rule or tracker subscribes to, and fast dispatch of events to subscribers.

Most frames are correct, and most subscribers look only at those that are not. What is unusual in a frame is computed
once and kept as flags. The subscribers for a frame's API and flags are looked up once and cached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import IntFlag
from operator import or_
from typing import Any, Generic, NamedTuple, TypeVar

from dissectors.connections.events import FRAME_EVENTS, DeadlinePassed, RequestReceived, ResponseReceived
from dissectors.messages.summary import errors

T = TypeVar("T")


class FrameFlags(IntFlag):
    """What is unusual in a frame. A rule that names one of these flags sees only frames that have it.

    IRREGULAR: decode warnings, an error, bytes left, a diagnosis, or something that a tracker found. TAGGED:
    something in a tag buffer. FIRST: the first of its API, version and direction on its connection. UNPAIRED: a
    response that nobody asked for, or not in its turn; a request with an id that went before, or many in flight.
    REFUSED: error codes other than 0. SASL: on a connection that spoke of SASL. SLOW: a response after `LONG`.
    THROTTLED: a response that asks to wait. STARVED: an empty Fetch response although its partitions have more.
    RESENT: a Produce with a batch that was sent before. SUBSCRIBED: not a property of the frame; its subscriber
    asked for all frames.

    Most follow from the frame (`flags_of`). Trackers add those that depend on earlier frames to `connection.flags`.
    """

    IRREGULAR = 1
    TAGGED = 2
    FIRST = 4
    UNPAIRED = 8
    REFUSED = 16
    SASL = 32
    SLOW = 64
    THROTTLED = 128
    STARVED = 256
    RESENT = 512
    SUBSCRIBED = 1024


ANY = FrameFlags(0)
ALL = range(1 << 15)

#: What is slow, in nanoseconds.
LONG = 1_000_000_000

#: Ways from an event to its listeners that are remembered.
_MOST_WAYS = 4096


@dataclass(frozen=True, slots=True)
class Trigger:
    """Events of these types; of frames only those of these APIs (none: all), and only well-read ones if not `broken`.

    `versions` are those of the APIs. `deadline` is the name of the `DeadlinePassed` that it waits for, by default the
    code of the listener; others do not go to it.
    """

    events: tuple[type, ...]
    apis: tuple[str, ...] = ()
    broken: bool = False
    only: FrameFlags = ANY
    versions: range = ALL
    deadline: str = ""

    def matches(self, way: _EventKind) -> bool:
        """Whether it wants an event, a frame if that has one of the flags `only`."""
        if way.kind not in self.events or not (way.reads_well or self.broken):
            return False
        if way.kind not in FRAME_EVENTS:
            return True
        return not self.apis or (way.api in self.apis and way.version in self.versions)


class _EventKind(NamedTuple):
    """What of an event tells who listens; `api` and `version` are None where there are none that Kafka knows."""

    kind: Hashable
    api: str | None = None
    version: int | None = None
    reads_well: bool = True


def flags_of(event: RequestReceived | ResponseReceived, *, first: bool, sasl: bool) -> int:
    """What is out of the ordinary in a frame, as bits of `FrameFlags`."""
    flags = (_FIRST if first else 0) | (_SASL if sasl else 0)
    message = event.message
    if message is None:
        return flags | _UNKNOWN
    if not message.reads_well or message.decode_warnings or event.damaged:
        flags |= _IRREGULAR
    if message.tagged and message.reads_well:
        flags |= _TAGGED
    if type(event) is ResponseReceived:
        request = event.request
        if request is None or event.passed_over:
            flags |= _UNPAIRED
        if request is not None and event.at - request.at >= LONG:
            flags |= _SLOW
        if message.may_refuse and errors(message):
            flags |= _REFUSED
    return flags


_IRREGULAR, _TAGGED, _FIRST, _UNPAIRED, _REFUSED, _SASL, _SLOW = (
    each.value
    for each in (
        FrameFlags.IRREGULAR,
        FrameFlags.TAGGED,
        FrameFlags.FIRST,
        FrameFlags.UNPAIRED,
        FrameFlags.REFUSED,
        FrameFlags.SASL,
        FrameFlags.SLOW,
    )
)
_UNKNOWN = _IRREGULAR | _UNPAIRED

#: The codes of those who listen to more than what is out of the ordinary.
Subscribed = frozenset[str]
NOBODY_SUBSCRIBED: Subscribed = frozenset()


class Dispatch(Generic[T]):
    """Those who listen, by event type, API key, whether the frame reads well, and what is out of the ordinary.

    Args:
        listeners: In the order in which they receive an event, each with its triggers, of which one must let the
            event through, and its code; called once, at first use.
    """

    def __init__(self, listeners: Callable[[], Iterable[tuple[T, tuple[Trigger, ...], str]]]) -> None:
        self._listeners = listeners
        self._chosen = functools.lru_cache(_MOST_WAYS)(self._choose)
        self._matching = functools.lru_cache(_MOST_WAYS)(self._match)
        self._timed = functools.cache(self._by_code)

    def __call__(self, event: Any, flags: int, subscribed: Subscribed = NOBODY_SUBSCRIBED) -> tuple[T, ...]:
        """Who wants to see an event; `flags` are those of a frame (`flags_of`), `subscribed` those for whom all are."""
        kind: Any = type(event)
        if kind is RequestReceived or kind is ResponseReceived:
            message = event.message
            if message is None or message.layout is None:  # numbers off the wire are many
                return self._chosen(kind, None, None, False, flags, subscribed)
            well = message.reads_well and not event.damaged
            return self._chosen(kind, message.api, message.version, well, flags, subscribed)
        if kind is DeadlinePassed:
            return self._timed().get(event.code, ())
        return self._chosen(kind)

    def _choose(
        self,
        kind: Hashable,
        api: str | None = None,
        version: int | None = None,
        reads_well: bool = True,
        flags: int = 0,
        subscribed: Subscribed = NOBODY_SUBSCRIBED,
    ) -> tuple[T, ...]:
        return tuple(
            listener
            for listener, only, code in self._matching(_EventKind(kind, api, version, reads_well))
            if not only or only & flags or code in subscribed
        )

    def _match(self, way: _EventKind) -> tuple[tuple[T, int, str], ...]:
        """Those who listen to such events, each with the flags of which a frame needs one (0: none), and its code."""
        matching: list[tuple[T, int, str]] = []
        for listener, triggers, code in self._listeners():
            if wanted := [each.only.value for each in triggers if each.matches(way)]:
                needs_flag = way.kind in FRAME_EVENTS and all(wanted)
                matching.append((listener, functools.reduce(or_, wanted) if needs_flag else 0, code))
        return tuple(matching)

    def _by_code(self) -> dict[str, tuple[T, ...]]:
        return {
            each.deadline or code: (listener,)
            for listener, triggers, code in self._listeners()
            for each in triggers
            if DeadlinePassed in each.events
        }
