"""Triggers: which events a rule or tracker subscribes to, and fast dispatch of events to subscribers.

Most frames are correct, and most subscribers look only at those that are not. What is unusual in a frame is computed
once and kept as flags. The subscribers for a frame's API and flags are looked up once and cached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, Generic, NamedTuple, TypeVar

from dissectors.connections.events import DeadlinePassed, RequestReceived, ResponseReceived
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

_FRAMES = (RequestReceived, ResponseReceived)


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

    def matches(self, way: _EventKind, flags: int) -> bool:
        """Whether it wants an event; `flags` count for frames."""
        if way.kind not in self.events or not (way.well_formed or self.broken):
            return False
        if way.kind not in _FRAMES:
            return True
        if self.apis and (way.api not in self.apis or way.version not in self.versions):
            return False
        return not self.only or bool(flags & self.only)


class _EventKind(NamedTuple):
    """What of an event tells who listens; `api` and `version` are None where there are none that Kafka knows."""

    kind: Hashable
    api: str | None = None
    version: int | None = None
    well_formed: bool = True


def flags_of(event: RequestReceived | ResponseReceived, *, first: bool, sasl: bool) -> int:
    """What is out of the ordinary in a frame, as bits of `FrameFlags`."""
    flags = (_FIRST if first else 0) | (_SASL if sasl else 0)
    message = event.message
    if message is None:
        return flags | _UNKNOWN
    if not message.well_formed or message.decode_warnings or event.damaged:
        flags |= _IRREGULAR
    if message.tagged and message.well_formed:
        flags |= _TAGGED
    if type(event) is ResponseReceived:
        request = event.request
        if request is None or event.overtaken:
            flags |= _UNPAIRED
        if request is not None and event.at - request.at >= LONG:
            flags |= _SLOW
        if message.may_have_errors and errors(message):
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
_SUBSCRIBED = ~0  # matches every frame

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
        self._timed = functools.cache(self._by_code)

    def __call__(self, event: Any, flags: int, subscribed: Subscribed = NOBODY_SUBSCRIBED) -> tuple[T, ...]:
        """Who wants to see an event; `flags` are those of a frame (`flags_of`), `subscribed` those for whom all are."""
        kind: Any = type(event)
        if kind is RequestReceived or kind is ResponseReceived:
            message = event.message
            if message is None or message.layout is None:  # numbers off the wire are many
                return self._chosen(kind, None, None, False, flags, subscribed)
            well = message.well_formed and not event.damaged
            return self._chosen(kind, message.api, message.version, well, flags, subscribed)
        if kind is DeadlinePassed:
            return self._timed().get(event.code, ())
        return self._chosen(kind)

    def _choose(
        self,
        kind: Hashable,
        api: str | None = None,
        version: int | None = None,
        well_formed: bool = True,
        flags: int = 0,
        subscribed: Subscribed = NOBODY_SUBSCRIBED,
    ) -> tuple[T, ...]:
        way = _EventKind(kind, api, version, well_formed)
        return tuple(
            listener
            for listener, triggers, code in self._listeners()
            if any(each.matches(way, _SUBSCRIBED if code in subscribed else flags) for each in triggers)
        )

    def _by_code(self) -> dict[str, tuple[T, ...]]:
        return {
            each.deadline or code: (listener,)
            for listener, triggers, code in self._listeners()
            for each in triggers
            if DeadlinePassed in each.events
        }
