"""Groups and members as rows, as they are at a time."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kproxy.groups.model import COUNTED, Boundary, Event, GroupHistory, GroupStatus, Lane, Protocol, Stall, Standing
from kproxy.groups.stalls.all_stalls import all_stalls


class GroupRow(Struct, frozen=True):
    """A group; times in ns since the epoch, 0 where there was none, `*_ns` in ns, `row` the latest of the index.

    `members` are those that the coordinator counts, `lanes` all that were seen. `worst` is the stall to look at first,
    one that lasts if there is any; `stalls` is how many there are now, `past` how many are over.
    """

    group: str
    protocol: Protocol
    state: GroupStatus
    generation: int
    members: int
    lanes: int
    leader: str
    coordinator: str
    commits: int
    commit_at: int
    rebalances: int
    longest_rebalance_ns: int
    errors: tuple[tuple[str, int], ...]
    stalls: int
    past: int
    worst: Stall | None
    first_at: int
    last_at: int
    row: int


class MemberRow(Struct, frozen=True):
    """A lane of a group; times in ns since the epoch, 0 where there was none, `since` that of its standing.

    `row` is the first of the index.
    """

    key: str
    label: str
    member_id: str
    client_id: str
    client: str
    connection_id: str
    standing: Standing
    since: int
    generation: int
    leader: bool
    commits: int
    commit_at: int
    errors: tuple[tuple[str, int], ...]
    first_at: int
    last_at: int
    row: int


class LaneView(Struct, frozen=True):
    """A lane with what happened in it, as far as it is kept, and the times of its membership (ns; None: still).

    `steps` change a membership, `beats` repeat while it lasts, each in order. They are the overview's own and grow.
    """

    member: MemberRow
    steps: Sequence[Event]
    beats: Sequence[Event]
    spells: Sequence[tuple[int, int | None]]


class GroupView(Struct, frozen=True):
    """Everything about a group: for a timeline (`kproxy.groups.timeline`) and the lists beside it.

    `lanes` begin with those that are members; `stalls` with those that last, the worst first, then the latest.
    `lanes_let_go`, `events_let_go` and `stalls_let_go` are how many are no longer kept.
    """

    row: GroupRow
    now: int
    lanes: tuple[LaneView, ...]
    boundaries: tuple[Boundary, ...]
    stalls: tuple[Stall, ...]
    lanes_let_go: int
    events_let_go: int
    stalls_let_go: int


def state(group: GroupHistory) -> GroupStatus:
    """How a group stands."""
    counted = group.counted()
    if not counted:
        left = any(lane.standing is Standing.LEFT for lane in group.lanes.values())
        return GroupStatus.EMPTY if left else GroupStatus.UNKNOWN
    if all(lane.standing is Standing.LOST for lane in counted):
        return GroupStatus.UNKNOWN
    if group.protocol is not Protocol.CLASSIC:
        return GroupStatus.RECONCILING if group.begun is not None else GroupStatus.STABLE
    if any(lane.standing is Standing.JOINING for lane in counted):
        return GroupStatus.PREPARING
    if group.begun is None:
        return GroupStatus.STABLE
    return GroupStatus.PREPARING if group.begun.generation == group.generation else GroupStatus.COMPLETING


def group_row(group: GroupHistory, now: int) -> GroupRow:
    """A group as it is at `now`."""
    return _group_row(group, all_stalls(group, now))


def _group_row(group: GroupHistory, told: Sequence[Stall]) -> GroupRow:
    lasts = sum(stall.until is None for stall in told)
    leader = group.lanes.get(group.leader)
    return GroupRow(
        group=group.id,
        protocol=group.protocol,
        state=state(group),
        generation=group.generation,
        members=len(group.counted()),
        lanes=len(group.lanes),
        leader=leader.label if leader is not None and leader.standing in COUNTED else "",
        coordinator=group.coordinator,
        commits=group.commits,
        commit_at=group.commit_at,
        rebalances=group.rebalances,
        longest_rebalance_ns=group.longest_rebalance,
        errors=group.errors.row(),
        stalls=lasts,
        past=len(told) - lasts,
        worst=told[0] if told else None,
        first_at=group.first,
        last_at=group.last,
        row=group.row,
    )


def member_row(group: GroupHistory, lane: Lane) -> MemberRow:
    """A lane as it is now."""
    return MemberRow(
        key=lane.key,
        label=lane.label,
        member_id=lane.member_id,
        client_id=lane.client_id,
        client=lane.client,
        connection_id=lane.connection_id,
        standing=lane.standing,
        since=lane.since,
        generation=lane.generation,
        leader=lane.key == group.leader and lane.standing in COUNTED,
        commits=lane.commits,
        commit_at=lane.commit_at,
        errors=lane.errors.row(),
        first_at=lane.first,
        last_at=lane.last,
        row=lane.row,
    )


def group_view(group: GroupHistory, now: int) -> GroupView:
    """Everything that is kept of a group, as it is at `now`."""
    counted = {lane.key for lane in group.counted()}
    lanes = sorted(group.lanes.values(), key=lambda lane: (lane.key not in counted, lane.first, lane.row))
    told = all_stalls(group, now)
    return GroupView(
        row=_group_row(group, told),
        now=now,
        lanes=tuple(LaneView(member_row(group, lane), lane.steps, lane.beats, tuple(lane.spells)) for lane in lanes),
        boundaries=tuple(group.boundaries),
        stalls=told,
        lanes_let_go=group.lanes.let_go,
        events_let_go=group.events_let_go,
        stalls_let_go=group.stalls_let_go,
    )
