"""The state of groups: members as lanes with their events, generations, and rebalances."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from dissectors.bounded import EvictionCountingDict
from dissectors.connections.addresses import ClientKey
from dissectors.error_counts import ErrorCounts

SECOND = 1_000_000_000

#: A partition, with the id of its topic, or the topic's name if the id is unknown.
TopicPartition: TypeAlias = tuple[str, int]

MAX_LANES_PER_GROUP = 1_000  # per group
MAX_ENDED = 200  # per group: generations; ended stalls
MAX_MEMBERSHIPS = 100  # per lane
MAX_TOPICS = 1_000  # per group, with their names
MAX_ASSIGNED = 10_000  # partitions per lane

#: The heartbeat interval is the largest of the last 9 gaps between heartbeats, and unknown before the third gap.
MAX_GAPS = 9
MIN_GAPS = 3


class EventKind(StrEnum):
    """What a member does."""

    JOIN = "join"  # JoinGroup, or a heartbeat of epoch 0 (KIP-848, KIP-932, KIP-1071)
    SYNC = "sync"
    HEARTBEAT = "heartbeat"
    LEAVE = "leave"  # LeaveGroup, or a heartbeat of epoch -1 or -2
    COMMIT = "commit"
    OFFSETS = "offsets"  # OffsetFetch
    COORDINATOR = "coordinator"  # FindCoordinator
    CLOSED = "closed"  # its connection ended


class Protocol(StrEnum):
    """The protocol that assigns partitions to members."""

    UNKNOWN = "unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"  # KIP-932
    STREAMS = "streams"  # KIP-1071


class MembershipState(StrEnum):
    """The state of a member in its group."""

    SEEN = "seen"  # has not joined, as far as is known
    JOINING = "joining"  # its JoinGroup is in flight
    JOINED = "joined"  # has its generation, but has not requested its assignment
    SYNCING = "syncing"  # its SyncGroup is in flight
    MEMBER = "member"
    LEFT = "left"
    LOST = "lost"  # disappeared without LeaveGroup; the coordinator does not know yet
    OUT = "out"  # removed by the coordinator


#: States in which the coordinator considers the client a member.
MEMBER_STATES = frozenset(
    {
        MembershipState.JOINING,
        MembershipState.JOINED,
        MembershipState.SYNCING,
        MembershipState.MEMBER,
        MembershipState.LOST,
    }
)


class GroupStatus(StrEnum):
    """The state of a group, as far as its traffic shows."""

    PREPARING = "preparing rebalance"  # members join
    COMPLETING = "completing rebalance"  # all have joined, but the assignment has not been sent yet
    RECONCILING = "reconciling"  # members are at different epochs
    STABLE = "stable"
    EMPTY = "empty"  # all members have left
    UNKNOWN = "unknown"  # no member was seen, or all have disappeared


class Event(Struct, gc=False):  # not tracked by the garbage collector: there are tens of thousands
    """A request of a member, from `at` to its response at `until` (ns; None: not answered yet).

    `severity` is that of the error or finding, empty if there is none. `generation` is the generation or epoch in the
    request or, for a join, in the response. `api` is Kafka's name of the request. The response completes the event;
    views must not change it.
    """

    kind: EventKind
    at: int
    row: int
    until: int | None = None
    generation: int | None = None
    error: str = ""
    severity: str = ""
    api: str = ""


class Streak(Struct):
    """Consecutive refusals with the same error; times in ns. `kind` and `api` are those of the last request.

    `contradicts`: all of them refuse the generation that the coordinator gave last, or a member that it just accepted.
    """

    error: str
    kind: EventKind
    first: int
    last: int
    row: int
    count: int = 1
    api: str = ""
    contradicts: bool = False


class CauseKind(StrEnum):
    """Why a group rebalances."""

    LEAVE = "leave"  # a member left
    JOIN = "join"  # a member joined that was not in the previous generation
    COORDINATOR = "coordinator"  # the coordinator began it: a session expired, or the cause is not visible
    REJOIN = "rejoin"  # a member rejoined by itself: its subscription changed, or it has given up partitions


class RebalanceCause(Struct, frozen=True):
    """Why a generation began, as `text`; `by` is the lane key of the member that caused it, empty if unknown.

    `by_leader`: it was the leader of the generation before.
    """

    kind: CauseKind
    by: str
    text: str
    by_leader: bool = False


class Disturbance(Struct):
    """Rebalances that one process caused in quick succession: the times of the first and last (ns), and the counts."""

    first: int
    row: int
    last: int
    kinds: dict[CauseKind, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of rebalances."""
        return sum(self.kinds.values())


class Boundary(Struct, frozen=True):
    """The start of a generation or epoch: the time (ns) and row of its first observation, and its cause."""

    at: int
    generation: int
    row: int
    cause: RebalanceCause | None = None


class StallKind(StrEnum):
    """Why a group or a member makes no progress."""

    JOIN_WAITS = "join-waits"
    JOIN_UNANSWERED = "join-unanswered"
    SYNC_MISSING = "sync-missing"
    SYNC_WAITS = "sync-waits"
    NOT_REJOINING = "not-rejoining"
    SILENT = "heartbeats-stopped"
    LOST = "member-lost"
    JOIN_LOOP = "join-loop"
    REFUSED = "refused"
    FENCED = "fenced"
    COMMIT_REFUSED = "commit-refused"
    LAGGING = "epoch-lags"
    UNANSWERED = "unanswered"
    COORDINATOR = "coordinator"
    DISTURBED = "disturbed"
    FINDING = "finding"


class Stall(Struct, frozen=True):
    """A group or member that makes no progress, from `since` to `until` (ns; None: still ongoing).

    `row` is the row where it began, `text` a sentence, `hint` what to check. `waiting` are the members that wait,
    `blamed` the members that they wait for, both as lane keys. `codes` are rules that report the same problem. `error`
    is the error in the responses, `times` the number of responses or requests concerned.
    """

    kind: StallKind
    severity: str
    since: int
    row: int
    text: str
    hint: str
    waiting: tuple[str, ...] = ()
    blamed: tuple[str, ...] = ()
    until: int | None = None
    codes: tuple[str, ...] = ()
    error: str = ""
    times: int = 1


class Lane(Struct):
    """A member or, while its id is unknown, the connection or client that it uses.

    `rejoin_signals` are the REBALANCE_IN_PROGRESS errors since it last joined, `refusals` the other errors since a
    request of that kind last succeeded. `memberships` are the times during which it was a member (ns; None: it still
    is).
    """

    key: str
    member_id: str
    client_id: str
    client: str
    label: str
    first: int
    row: int
    last: int = 0
    connection_id: str = ""
    end_reason: str = ""  # why the lane ended, as text
    is_abandoned: bool = False  # its client uses another member id, because its requests with this one were refused
    state: MembershipState = MembershipState.SEEN
    since: int = 0
    generation: int = -1
    request: Event | None = None  # the latest JoinGroup or SyncGroup
    unsynced_joins: int = 0  # consecutive joins without an assignment,
    unsynced_since: tuple[int, int] = (0, 0)  # and the time and row of the first
    rejoin_signals: Streak | None = None
    refusals: dict[str, Streak] = field(default_factory=dict)
    in_flight: dict[int, Event] = field(default_factory=dict)  # requests in flight, by row
    heartbeat_at: int = 0
    heartbeat_row: int = -1
    heartbeat_gaps: list[int] = field(default_factory=list)  # between its last heartbeats (ns)
    commits: int = 0
    commit_at: int = 0
    assigned: frozenset[TopicPartition] | None = (
        None  # in the last heartbeat response that had an assignment, if any was observed
    )
    disturbance: Disturbance | None = None  # the rebalances that its process has caused in a row
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    transitions: list[Event] = field(default_factory=list)  # events that change the membership
    recurring: list[Event] = field(default_factory=list)  # events that repeat during a membership
    memberships: list[tuple[int, int | None]] = field(default_factory=list)

    @property
    def interval(self) -> int:
        """The usual time between its heartbeats (ns), or 0 while it is unknown."""
        return max(self.heartbeat_gaps) if len(self.heartbeat_gaps) >= MIN_GAPS else 0

    def record_heartbeat(self, at: int, row: int, late: bool) -> None:
        """Record a heartbeat; `late` means that it came too late, so the gap before it is not typical."""
        if self.heartbeat_at and at > self.heartbeat_at and not late:
            self.heartbeat_gaps.append(at - self.heartbeat_at)
            del self.heartbeat_gaps[:-MAX_GAPS]
        self.heartbeat_at, self.heartbeat_row = at, row

    def set_state(self, state: MembershipState, at: int) -> None:
        """Set the state; record the time if a membership begins or ends."""
        if state is self.state:
            return
        if state is MembershipState.MEMBER:
            self.memberships.append((at, None))
            del self.memberships[:-MAX_MEMBERSHIPS]
        elif self.state is MembershipState.MEMBER and self.memberships:
            self.memberships.append((self.memberships.pop()[0], at))
        self.state, self.since = state, at


class RebalanceInProgress(Struct):
    """A rebalance in progress; `generation` is the generation before it."""

    at: int
    generation: int


class PendingId(Struct):
    """A member id that the coordinator assigned but no member has joined with yet (MEMBER_ID_REQUIRED, KIP-394)."""

    at: int
    row: int
    label: str


class GroupHistory(Struct):
    """A group and its history. `coordinator_errors` are consecutive errors about its coordinator."""

    id: str
    first: int
    row: int
    last: int = 0
    protocol: Protocol = Protocol.UNKNOWN
    lanes: EvictionCountingDict[str, Lane] = field(default_factory=lambda: EvictionCountingDict(MAX_LANES_PER_GROUP))
    clients: EvictionCountingDict[ClientKey, str] = field(
        default_factory=lambda: EvictionCountingDict(MAX_LANES_PER_GROUP)
    )  # the lane key of each client
    generation: int = -1
    generation_at: int = 0
    boundaries: deque[Boundary] = field(default_factory=lambda: deque(maxlen=MAX_ENDED))
    leader: str = ""
    rebalance: RebalanceInProgress | None = None
    leaver: tuple[str, str] | None = None  # for the next rebalance: the first member that left (lane key and label),
    joiner: tuple[Lane, int, bool] | None = None  # the first member that joined (lane, row, whether it is new),
    rejoin_signaled: bool = False  # and whether a member got REBALANCE_IN_PROGRESS before
    rebalances: int = 0
    longest_rebalance: int = 0  # ns
    join_stall: Stall | None = None  # the stall of members that waited for a member that has since joined,
    join_stall_at: int = 0  # and when it joined (ns)
    pending_ids: EvictionCountingDict[str, PendingId] = field(default_factory=lambda: EvictionCountingDict(MAX_ENDED))
    coordinator: str = ""  # the broker that answered last, and when it did (ns)
    coordinator_seen_at: int = 0
    moved_at: int = 0  # when another broker first answered as its coordinator (ns)
    closed_at: int = 0  # when the last connection of a member ended (ns)
    coordinator_errors: Streak | None = None
    ended_stalls: deque[Stall] = field(default_factory=lambda: deque(maxlen=MAX_ENDED))
    stalls_evicted: int = 0
    newly_ended: int = 0  # number of new entries of `ended_stalls`; reset to 0 by their reader
    events_evicted: int = 0
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    commits: int = 0
    commit_at: int = 0
    topic_names: EvictionCountingDict[str, str] = field(
        default_factory=lambda: EvictionCountingDict(MAX_TOPICS)
    )  # by topic id

    def lanes_in_state(self, state: MembershipState) -> list[Lane]:
        """Return the lanes that are in a state."""
        return [lane for lane in self.lanes.values() if lane.state is state]

    def current_members(self) -> list[Lane]:
        """Return the lanes that the coordinator considers members."""
        return [lane for lane in self.lanes.values() if lane.state in MEMBER_STATES]

    def status(self) -> GroupStatus:
        """Return the status of the group."""
        members = self.current_members()
        if not members:
            any_left = any(lane.state is MembershipState.LEFT for lane in self.lanes.values())
            return GroupStatus.EMPTY if any_left else GroupStatus.UNKNOWN
        if all(lane.state is MembershipState.LOST for lane in members):
            return GroupStatus.UNKNOWN
        if self.protocol is not Protocol.CLASSIC:
            return GroupStatus.RECONCILING if self.rebalance is not None else GroupStatus.STABLE
        if any(lane.state is MembershipState.JOINING for lane in members):
            return GroupStatus.PREPARING
        if self.rebalance is None:
            return GroupStatus.STABLE
        return GroupStatus.PREPARING if self.rebalance.generation == self.generation else GroupStatus.COMPLETING
