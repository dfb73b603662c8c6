"""Triggers: which events a rule or tracker subscribes to, and fast dispatch of events to subscribers.

Most frames are correct, and most subscribers inspect only frames that are not. The flags of a frame, which say what is
unusual in it, are computed once. The subscribers for an API and a set of flags are determined once and cached.
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

SubscriberT = TypeVar("SubscriberT")


class FrameFlags(IntFlag):
    """What is unusual about a frame. A rule that selects some of these flags receives only frames with one of them.

    IRREGULAR: decode warnings, an error, trailing bytes, a diagnosis, or an observation of a tracker. TAGGED: a tag
    buffer is not empty. FIRST: the first frame of its API, version and direction on its connection. UNPAIRED: a
    response without a request or out of order; a request that reuses or decreases the correlation id, or with many in
    flight. REFUSED: error codes other than 0. SASL: the connection uses SASL. SLOW: a response that took at least
    `SLOW_LATENCY`. THROTTLED: a response with a throttle time. STARVED: a Fetch response that is empty although its
    partitions have more records, or in which a partition has only control batches. RESENT: a Produce with a batch that
    was sent before. REPEATED: a Fetch response with a batch that the previous response with records also had (not all
    are compared). EMPTY: a Produce or Fetch response without a result for anything that was requested.
    RAISED: a Produce with a batch whose epoch is higher than in its producer's last batch for the partition.
    HELD: a Fetch response with a partition that an open transaction holds back; if it goes to a read_committed
    consumer, without records for that partition.
    SUBSCRIBED: not a property of the frame; the subscriber requested all frames.

    Most flags follow from the frame (`flags_of`). Trackers add those that depend on earlier frames to
    `connection.flags`.
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
    REPEATED = 2048
    EMPTY = 4096
    RAISED = 8192
    HELD = 16384


#: The API of frames whose API or version the schemas do not have, for triggers.
UNKNOWN_API = ""

ANY = FrameFlags(0)
ALL = range(1 << 15)

#: The latency of a slow response, in ns.
SLOW_LATENCY = 1_000_000_000

#: The number of cached lookups of subscribers.
_MAX_CACHED = 4096


@dataclass(frozen=True, slots=True)
class Trigger:
    """Selects events by type, and frames also by API (empty: all), version and flags; malformed ones only if `broken`.

    `deadline` is the name of the `DeadlinePassed` to receive; by default the code of the subscriber.
    """

    events: tuple[type, ...]
    apis: tuple[str, ...] = ()
    broken: bool = False
    only: FrameFlags = ANY
    versions: range = ALL
    deadline: str = ""

    def matches(self, event_kind: _EventKind) -> bool:
        """Whether an event is selected. A frame must also have one of the flags in `only`, if there are any."""
        if event_kind.kind not in self.events or not (event_kind.well_formed or self.broken):
            return False
        if event_kind.kind not in FRAME_EVENTS:
            return True
        return not self.apis or (event_kind.api in self.apis and event_kind.version in self.versions)


class _EventKind(NamedTuple):
    """The properties of an event that select its subscribers; other events than frames have no `api` and `version`."""

    kind: Hashable
    api: str | None = None
    version: int | None = None
    well_formed: bool = True


def flags_of(event: RequestReceived | ResponseReceived, *, first: bool, sasl: bool) -> int:
    """Return the flags of a frame, as bits of `FrameFlags`."""
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
        if request is not None and event.at - request.at >= SLOW_LATENCY:
            flags |= _SLOW
        if message.may_have_errors and errors(message):
            flags |= _REFUSED
    return flags


_IRREGULAR, _TAGGED, _FIRST, _UNPAIRED, _REFUSED, _SASL, _SLOW = (
    flag.value
    for flag in (
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

#: The codes of subscribers that currently receive all frames of their APIs; ``"CODE API"`` if only those of one API.
Subscribed = frozenset[str]
NO_SUBSCRIBERS: Subscribed = frozenset()


class Dispatch(Generic[SubscriberT]):
    """Finds the subscribers of an event.

    Args:
        listeners: Returns the subscribers, in the order in which they receive an event, each with its triggers, of
            which one must match, and its code. It is called once, at first use.
    """

    def __init__(self, listeners: Callable[[], Iterable[tuple[SubscriberT, tuple[Trigger, ...], str]]]) -> None:
        self._cached_listeners = functools.cache(lambda: tuple(listeners()))
        self._by_api = functools.cache(self._index_triggers)
        self._cached_subscribers = functools.lru_cache(_MAX_CACHED)(self._find_subscribers)
        self._cached_matching = functools.lru_cache(_MAX_CACHED)(self._find_matching)
        self._deadline_subscribers = functools.cache(self._index_deadlines)

    def __call__(self, event: Any, flags: int, subscribed: Subscribed = NO_SUBSCRIBERS) -> tuple[SubscriberT, ...]:
        """Return the subscribers of an event. `flags` are a frame's; the codes in `subscribed` receive every frame."""
        kind: Any = type(event)
        if kind is RequestReceived or kind is ResponseReceived:
            message = event.message
            if message is None or message.layout is None:  # unbounded: these numbers come off the wire
                return self._cached_subscribers(kind, UNKNOWN_API, 0, False, flags, subscribed)
            well_formed = message.well_formed and not event.damaged
            return self._cached_subscribers(kind, message.api, message.version, well_formed, flags, subscribed)
        if kind is DeadlinePassed:
            return self._deadline_subscribers().get(event.code, ())
        return self._cached_subscribers(kind)

    def _find_subscribers(
        self,
        kind: Hashable,
        api: str | None = None,
        version: int | None = None,
        well_formed: bool = True,
        flags: int = 0,
        subscribed: Subscribed = NO_SUBSCRIBERS,
    ) -> tuple[SubscriberT, ...]:
        return tuple(
            listener
            for listener, only, code in self._cached_matching(_EventKind(kind, api, version, well_formed))
            if not only or only & flags or code in subscribed or f"{code} {api}" in subscribed
        )

    def _find_matching(self, event_kind: _EventKind) -> tuple[tuple[SubscriberT, int, str], ...]:
        """Return the subscribers, each with the flags of which a frame needs at least one (0: none), and its code."""
        is_frame = event_kind.kind in FRAME_EVENTS
        triggers_by_api, subscribers = self._by_api(), self._cached_listeners()
        triggers: dict[int, list[int]] = {}
        for api in {event_kind.api if is_frame else None, None}:
            for subscriber_index, trigger in triggers_by_api.get((event_kind.kind, api), ()):
                if trigger.matches(event_kind):
                    triggers.setdefault(subscriber_index, []).append(trigger.only.value)
        return tuple(
            (
                subscribers[subscriber_index][0],
                functools.reduce(or_, flags) if is_frame and all(flags) else 0,
                subscribers[subscriber_index][2],
            )
            for subscriber_index, flags in sorted(triggers.items())
        )

    def _index_triggers(self) -> dict[tuple[Hashable, str | None], list[tuple[int, Trigger]]]:
        """Return the triggers by event and API (None: any), each with the index of its subscriber."""
        index: dict[tuple[Hashable, str | None], list[tuple[int, Trigger]]] = {}
        for subscriber_index, (_, triggers, _) in enumerate(self._cached_listeners()):
            for trigger in triggers:
                for event in trigger.events:
                    for api in trigger.apis if event in FRAME_EVENTS and trigger.apis else (None,):
                        index.setdefault((event, api), []).append((subscriber_index, trigger))
        return index

    def _index_deadlines(self) -> dict[str, tuple[SubscriberT, ...]]:
        return {
            trigger.deadline or code: (listener,)
            for listener, triggers, code in self._cached_listeners()
            for trigger in triggers
            if DeadlinePassed in trigger.events
        }
