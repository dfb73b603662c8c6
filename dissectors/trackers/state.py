"""ConnectionState and RunState: the state of one connection, and of all connections of a run."""

# Rule 1: an event is observed once, and before the rules check it: what they read is the state after the event.
#
# Rule 2: nothing here has a clock. Time is that of events, and a deadline passes when a later event or tick arrives.
#
# Rule 3: everything that grows with what peers send is bounded, and drops the oldest.
#
# Rule 4: the plan of a frame is a cache. With or without it, the same trackers and rules run in the same order.

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dissectors import diagnosis
from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import (
    ConnectionEnded,
    ConnectionOpened,
    DeadlinePassed,
    RequestReceived,
    ResponseReceived,
)
from dissectors.failures import Failure
from dissectors.limits import NO_VALUES, Limit, Values
from dissectors.messages.message import Message
from dissectors.schemas.codes import ApiKey
from dissectors.trackers import NO_TRACKERS, Trackers
from dissectors.trackers.deadlines import Deadlines
from dissectors.trackers.frame_plan import TOPIC_NAMING_APIS, FramePlan, Observer, is_ordinary
from dissectors.trackers.triggers import NO_SUBSCRIBERS, FrameFlags, Subscribed, flags_of

SASL = FrameFlags.SASL.value
API_VERSIONS = ApiKey.API_VERSIONS
SASL_HANDSHAKE = ApiKey.SASL_HANDSHAKE

#: The number of topic ids to remember; the oldest are dropped first.
MAX_TOPICS = 100_000

#: The number of root causes to remember, and the time (ns) after which an absent cause is reported again.
MAX_CAUSES = 10_000
MAX_CAUSE_AGE = 3600 * 1_000_000_000

#: The number of repeats that are marked on one frame.
MAX_REPEATS = 20
#: The number of subscriber sets to keep for a run, and of plans for a connection.
_MAX_SUBSCRIBER_SETS = 1_000
_MAX_PLANS = 64

StateT = TypeVar("StateT")
#: Whether a frame is a request, its API key and its version.
_FrameKind: TypeAlias = tuple[bool, int, int]


class Place(NamedTuple):
    """Where a root cause was first reported: a frame, by its `offset` in a direction, or no frame (None)."""

    connection_id: str
    is_request: bool | None = None
    offset: int | None = None


class Repeat(NamedTuple):
    """A finding that is suppressed because its root cause was already reported; `first` is where."""

    code: str
    severity: str
    first: Place


@dataclass(slots=True)
class RunState:
    """State that all connections of a run share.

    `known_deviations` are the layout errors diagnosed so far: the next frame with the same error is decoded without a
    search. `subscribed` are the codes of rules and trackers that currently observe all frames of their APIs, not only
    unusual ones. `trackers` observe each event before the rules (`dissectors.rules.trackers`). `new_causes`, unless it
    is None, collects the root cause of each finding, in order. `limits` are the limits that the user has set.
    """

    trackers: Trackers = NO_TRACKERS
    limits: Values = field(default_factory=lambda: NO_VALUES)
    topic_names: BoundedDict[str, str] = field(default_factory=lambda: BoundedDict(MAX_TOPICS))
    deadlines: Deadlines[ConnectionState] = field(default_factory=Deadlines)
    known_deviations: diagnosis.KnownDeviations = field(default_factory=diagnosis.KnownDeviations)
    subscribed: Subscribed = NO_SUBSCRIBERS
    new_causes: list[Hashable] | None = None
    _reported: BoundedDict[Hashable, tuple[int, Place]] = field(default_factory=lambda: BoundedDict(MAX_CAUSES))
    latest_problems: BoundedDict[Hashable, int] = field(default_factory=lambda: BoundedDict(MAX_CAUSES))
    _states: dict[type[Any], Any] = field(default_factory=dict)
    _sets: dict[Subscribed, Subscribed] = field(default_factory=lambda: {NO_SUBSCRIBERS: NO_SUBSCRIBERS})

    def learn_topic_ids(self, message: Message) -> None:
        """Remember the topic ids in a response."""
        for topic in message.body.get("topics") or ():
            if isinstance(topic, dict) and (topic_id := topic.get("topic_id")) and (name := topic.get("name")):
                self.topic_names[topic_id] = name

    def state(self, kind: type[StateT]) -> StateT:
        """Return the run's instance of a class of state, created on first use."""
        state: StateT | None = self._states.get(kind)
        if state is None:
            self.trackers.check(kind)
            state = self._states[kind] = kind()
        return state

    def limit(self, limit: Limit) -> float:
        """Return the value of a rule's limit: the user's value, or the default."""
        return self.limits.get(limit, limit.default)

    def subscribe(self, code: str, *, api: str = "") -> None:
        """Send all frames of its APIs, or of `api`, to the rule or tracker `code`, not only unusual ones."""
        if (subscriber := f"{code} {api}" if api else code) not in self.subscribed:
            self._set_subscribed(self.subscribed | {subscriber})

    def unsubscribe(self, code: str, *, api: str = "") -> None:
        """Send only unusual frames to the rule or tracker `code` again."""
        if (subscriber := f"{code} {api}" if api else code) in self.subscribed:
            self._set_subscribed(self.subscribed - {subscriber})

    def _set_subscribed(self, subscribed: Subscribed) -> None:
        """Set `subscribed`, always to the same object for equal sets: a connection's plans are valid for one object."""
        if len(self._sets) >= _MAX_SUBSCRIBER_SETS:
            self._sets.clear()
        self.subscribed = self._sets.setdefault(subscribed, subscribed)

    def is_new_cause(self, cause: Hashable, at: int) -> bool:
        """Record a cause; return whether it is new, or was absent for an hour."""
        return self.record_first_place(cause, at, _NOWHERE) is None

    def record_first_place(self, cause: Hashable, at: int, place: Place) -> Place | None:
        """Return where a cause was first reported.

        If the cause is new or was absent for an hour, record `place` and return None.
        """
        last_at, first = self._reported.get(cause, (at, None))
        if at - last_at > MAX_CAUSE_AGE:
            first = None
        self._reported[cause] = at, first or place
        return first


_NOWHERE = Place("")


@dataclass(slots=True)
class ConnectionState:
    """The state of one connection. Call `observe` with every event, in order, before the rules check it.

    `client` and `server` are addresses (``host:port``). `dialled` is the address that the client connected to: a
    relay's listener, otherwise the server's. `repeated` counts the findings that were suppressed as repeats, by code
    and name. `repeats` are the repeats on the last frame, without those of severity info; the code that builds the
    frame's line removes them.
    """

    run: RunState = field(default_factory=RunState)
    connection_id: str = ""
    client: str = ""
    server: str = ""
    dialled: str = ""
    tls: bool = False
    plaintext_upstream: bool = False
    midstream: bool = False
    resumed: bool = False
    opened_at: int = 0
    ended: bool = False
    client_id: str | None = None
    client_software: str | None = None
    sasl_mechanism: str | None = None
    repeated: Counter[tuple[str, str]] = field(default_factory=Counter)
    repeats: Counter[Repeat] = field(default_factory=Counter)
    #: The flags of the last frame (`dissectors.trackers.triggers.FrameFlags`); trackers add to them.
    flags: int = 0
    #: The plan of the last frame, None if it is not ordinary.
    plan: FramePlan | None = None
    #: Failures during the last event; `dissectors.rules.failed` reports them.
    failures: list[Failure] = field(default_factory=list)
    _seen_versions: set[tuple[bool, int, int]] = field(default_factory=set)
    _plans: dict[_FrameKind, FramePlan] = field(default_factory=dict)
    #: The plans for earlier sets of subscribers too: rules subscribe and unsubscribe again and again.
    _known_plans: dict[tuple[_FrameKind, Subscribed], FramePlan] = field(default_factory=dict)
    _states: dict[type[Any], Any] = field(default_factory=dict)

    def observe(self, event: object) -> None:
        """Update the state with an event; diagnose a frame that does not decode."""
        kind = type(event)
        if kind is RequestReceived or kind is ResponseReceived:
            observers = self._observers_of_frame(event)  # type: ignore[arg-type]
        else:
            if isinstance(event, ConnectionOpened):
                self.client, self.server, self.dialled = event.client, event.server, event.listener or event.server
                self.tls, self.midstream, self.opened_at = event.tls, event.midstream, event.at
                self.resumed, self.plaintext_upstream = event.resumed, event.plaintext_upstream
            elif isinstance(event, ConnectionEnded):
                self.ended = True
            observers = self._observers_of_event(event)
        for observe in observers:
            try:
                observe(event, self)
            except Exception as error:  # noqa: BLE001  # a bug in one tracker must not affect others
                self.failures.append(Failure.of(f"updating {type(observe.__self__).__name__}", error))  # type: ignore[attr-defined]

    def _observers_of_frame(self, event: RequestReceived | ResponseReceived) -> tuple[Observer, ...]:
        """Examine a frame and set its flags and its plan; return the trackers to update."""
        is_planned = is_ordinary(event)
        if is_planned:
            message: Message = event.message  # type: ignore[assignment]
            key = (message.is_request, message.api_key, message.version)
            plan = self._plans.get(key)
            if plan is not None and plan.subscribed is not (subscribed := self.run.subscribed):
                plan = self._known_plans.get((key, subscribed))
                if plan is not None:
                    self._plans[key] = plan
            if plan is not None:
                if message.is_request:
                    self.client_id = message.client_id
                self.plan, self.flags = plan, plan.flags
                return plan.observers
        self.plan = None
        try:
            self._examine_frame(event)
        except Exception as error:  # noqa: BLE001
            self.failures.append(Failure.of("examining a frame", error))
        observers = self._observers_of_event(event)
        if is_planned and not (self.failures or self.flags & ~SASL):
            self.plan = self._plans[key] = FramePlan(self.flags, self.run.subscribed, observers)
            if len(self._known_plans) >= _MAX_PLANS:
                self._known_plans.clear()
            self._known_plans[key, self.run.subscribed] = self.plan
        return observers

    def _observers_of_event(self, event: object) -> tuple[Observer, ...]:
        run = self.run
        return tuple(
            (run if tracker.is_shared else self).state(tracker.kind).observe
            for tracker in run.trackers.subscribers(event, self.flags, run.subscribed)
        )

    def _examine_frame(self, event: RequestReceived | ResponseReceived) -> None:
        is_first, message = True, event.message
        if message is not None:
            if message.failure is not None:
                self.failures.append(message.failure)
            elif event.damaged is None and (message.decode_warnings or not message.well_formed or message.unusual):
                request = event.request.message if isinstance(event, ResponseReceived) and event.request else None
                try:
                    event.message = message = diagnosis.examine(
                        message, request, self.run.known_deviations, self.server
                    )
                except Exception as error:  # noqa: BLE001  # the frame can still be inspected without a diagnosis
                    self.failures.append(Failure.of("diagnosing a frame", error))
            if message.is_request:
                self._observe_request(message)
            elif message.api_key in TOPIC_NAMING_APIS:
                self.run.learn_topic_ids(message)
            if message.layout is not None:  # only known versions, so that the set stays small
                key = (message.is_request, message.api_key, message.version)
                if is_first := key not in self._seen_versions:
                    self._seen_versions.add(key)
        self.flags = flags_of(event, first=is_first, sasl=self.sasl_mechanism is not None)

    def state(self, kind: type[StateT]) -> StateT:
        """Return this connection's instance of a class of state, created on first use."""
        state: StateT | None = self._states.get(kind)
        if state is None:
            self.run.trackers.check(kind)
            state = self._states[kind] = kind()
        return state

    def set_deadline(self, code: str, key: Hashable, *, by: int, about: Any = None) -> None:
        """Set a deadline: `code` gets `DeadlinePassed` at `by` (ns) unless `meet_deadline` is called with `key` first.

        A tracker passes a name instead of a code. Keys are local to the rule or tracker but shared by the whole run; a
        new deadline replaces the one with the same key.
        """
        self.run.deadlines.set_deadline((code, key), self, DeadlinePassed(by, code, about))

    def meet_deadline(self, code: str, key: Hashable) -> bool:
        """Cancel a deadline because the expected event has happened; return whether it was pending."""
        return self.run.deadlines.meet_deadline((code, key)) is not None

    def note_problem(self, code: str, at: int) -> None:
        """Remember that the rule `code` found a problem on a connection of this client, new or repeated."""
        self.run.latest_problems[code, host_of(self.client), self.client_id] = at

    def has_problem(self, code: str, *, since: int) -> bool:
        """Whether the rule `code` found a problem on a connection of this client at `since` (ns) or later."""
        at = self.run.latest_problems.get((code, host_of(self.client), self.client_id))
        return at is not None and at >= since

    def _observe_request(self, message: Message) -> None:
        self.client_id = message.client_id
        if message.api_key == API_VERSIONS and (name := message.body.get("client_software_name")):
            self.client_software = f"{name} {message.body.get('client_software_version', '')}".strip()
        elif message.api_key == SASL_HANDSHAKE:
            self.sasl_mechanism = message.body.get("mechanism")
            self._plans.clear()  # the flags of all frames change
            self._known_plans.clear()
