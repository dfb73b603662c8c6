"""What is known of groups: their members as lanes, what each did and when, generations, rebalances."""

from __future__ import annotations

from collections import deque
from enum import StrEnum

from msgspec import Struct, field

from kproxy.counting.bounded_dict import Recent
from kproxy.counting.counts import ErrorCounts
from kproxy.counting.names import Who

SECOND = 1_000_000_000

MOST_LANES = 1_000  # of a group
MOST_PAST = 200  # of a group: generations, and stalls that are over, each
MOST_SPELLS = 100  # of a lane

#: The usual distance of heartbeats is the greatest of so many, known from so many on.
LAST_GAPS = 9
ENOUGH_GAPS = 3


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
    """How members are given their partitions."""

    UNKNOWN = "unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"  # KIP-932
    STREAMS = "streams"  # KIP-1071


class Standing(StrEnum):
    """How a member stands to its group."""

    SEEN = "seen"  # not joined, as far as is known
    JOINING = "joining"  # its JoinGroup is in flight
    JOINED = "joined"  # has its generation, has not asked for its assignment
    SYNCING = "syncing"  # its SyncGroup is in flight
    MEMBER = "member"
    LEFT = "left"
    LOST = "lost"  # went away without leaving: the coordinator does not know yet
    OUT = "out"  # the coordinator has gone on without it


#: Those that the coordinator counts, whatever has become of them.
COUNTED = frozenset({Standing.JOINING, Standing.JOINED, Standing.SYNCING, Standing.MEMBER, Standing.LOST})


class GroupStatus(StrEnum):
    """How a group stands, as far as the wire tells."""

    PREPARING = "preparing rebalance"  # members join
    COMPLETING = "completing rebalance"  # all have joined, the assignment is not out
    RECONCILING = "reconciling"  # members are at different epochs
    STABLE = "stable"
    EMPTY = "empty"  # all members have left
    UNKNOWN = "unknown"  # no member was seen, or nobody is left to tell


class Event(Struct, gc=False):  # tens of thousands, which the garbage collector need not look at
    """Something a member did, from `at` to `until` (ns), which is None while nobody has answered.

    `severity` is that of its error or finding, empty if all is well; `generation` the generation or epoch that it is
    about, of a join the one that it brought. It is filled in when the answer comes: those who show it leave it be.
    """

    kind: EventKind
    at: int
    row: int
    until: int | None = None
    generation: int | None = None
    error: str = ""
    severity: str = ""


class Streak(Struct):
    """Refusals of one kind in a row; times in ns."""

    error: str
    kind: EventKind
    first: int
    last: int
    row: int
    count: int = 1


class Boundary(Struct, frozen=True):
    """A generation, or epoch, when it was first heard of (ns), and at which row."""

    at: int
    generation: int
    row: int


class StallKind(StrEnum):
    """Why a group, or a member, stands still."""

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
    FINDING = "finding"


class Stall(Struct, frozen=True):
    """Why something stands still, from `since` to `until` (ns; None: still).

    `row` is where it began; `text` is a sentence, `look` says where to look next. `who` waits, `blamed` are those that
    keep them waiting, both as keys of lanes. `codes` are rules that say the same. `error` is what was answered, `times`
    counts the answers or requests that it is about.
    """

    kind: StallKind
    severity: str
    since: int
    row: int
    text: str
    look: str
    who: tuple[str, ...] = ()
    blamed: tuple[str, ...] = ()
    until: int | None = None
    codes: tuple[str, ...] = ()
    error: str = ""
    times: int = 1


class Lane(Struct):
    """A member, or while its id is not known the connection, or the client, that speaks for it.

    `told` are the REBALANCE_IN_PROGRESS since it last joined, `refused` what it was refused since the same was last
    accepted. `spells` are the times of its membership, the last one perhaps without end.
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
    gone: str = ""  # why nothing more will be seen of it, in words
    standing: Standing = Standing.SEEN
    since: int = 0
    generation: int = -1
    asked: Event | None = None  # the latest JoinGroup or SyncGroup
    unsynced: int = 0  # joins in a row that no assignment followed,
    unsynced_since: tuple[int, int] = (0, 0)  # and the time and row of the first
    told: Streak | None = None
    refused: dict[str, Streak] = field(default_factory=dict)
    waiting: dict[int, Event] = field(default_factory=dict)  # what is in flight, by row
    beat_at: int = 0
    beat_row: int = -1
    gaps: list[int] = field(default_factory=list)  # between its last heartbeats, ns
    commits: int = 0
    commit_at: int = 0
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    steps: list[Event] = field(default_factory=list)  # what changes a membership
    beats: list[Event] = field(default_factory=list)  # what repeats while it lasts
    spells: list[tuple[int, int | None]] = field(default_factory=list)

    @property
    def interval(self) -> int:
        """How far its heartbeats usually lie apart, ns; 0 while that is not known."""
        return max(self.gaps) if len(self.gaps) >= ENOUGH_GAPS else 0

    def beats_again(self, at: int, row: int, missed: bool) -> None:
        """A heartbeat was sent; `missed`: others before it were not."""
        if self.beat_at and at > self.beat_at and not missed:
            self.gaps.append(at - self.beat_at)
            del self.gaps[:-LAST_GAPS]
        self.beat_at, self.beat_row = at, row

    def stand(self, standing: Standing, at: int) -> None:
        """Take another standing, or keep it."""
        if standing is self.standing:
            return
        if standing is Standing.MEMBER:
            self.spells.append((at, None))
            del self.spells[:-MOST_SPELLS]
        elif self.standing is Standing.MEMBER and self.spells:
            self.spells.append((self.spells.pop()[0], at))
        self.standing, self.since = standing, at


class Begun(Struct):
    """A rebalance that is going on; `generation` is the one before it."""

    at: int
    generation: int


class Given(Struct):
    """A member id that the coordinator made for a new member (MEMBER_ID_REQUIRED, KIP-394)."""

    at: int
    row: int
    label: str


class GroupHistory(Struct):
    """A group. `given` are member ids that nobody has joined with yet, `denied` what it is told of its coordinator."""

    id: str
    first: int
    row: int
    last: int = 0
    protocol: Protocol = Protocol.UNKNOWN
    lanes: Recent[str, Lane] = field(default_factory=lambda: Recent(MOST_LANES))
    clients: Recent[Who, str] = field(default_factory=lambda: Recent(MOST_LANES))  # the lane of each
    generation: int = -1
    generation_at: int = 0
    boundaries: deque[Boundary] = field(default_factory=lambda: deque(maxlen=MOST_PAST))
    leader: str = ""
    begun: Begun | None = None
    rebalances: int = 0
    longest_rebalance: int = 0  # ns
    held_up: Stall | None = None  # JoinGroup that waited for a member which has joined since,
    held_up_at: int = 0  # as it was then
    given: Recent[str, Given] = field(default_factory=lambda: Recent(MOST_PAST))
    coordinator: str = ""  # the broker that answered last, and when
    coordinated_at: int = 0
    closed_at: int = 0  # when a connection of a member ended last
    denied: Streak | None = None
    past: deque[Stall] = field(default_factory=lambda: deque(maxlen=MOST_PAST))
    stalls_let_go: int = 0
    just_over: int = 0  # how many of `past` are new; whoever reads them sets it to 0
    events_let_go: int = 0
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    commits: int = 0
    commit_at: int = 0

    def in_standing(self, standing: Standing) -> list[Lane]:
        """The lanes that stand so."""
        return [lane for lane in self.lanes.values() if lane.standing is standing]

    def counted(self) -> list[Lane]:
        """Its members, as the coordinator counts them."""
        return [lane for lane in self.lanes.values() if lane.standing in COUNTED]
