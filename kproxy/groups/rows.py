"""Groups and members as rows, at a given time."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dissectors.groups.model import (
    MEMBER_STATES,
    Boundary,
    Event,
    GroupHistory,
    GroupStatus,
    Lane,
    MembershipState,
    Protocol,
    Stall,
)
from dissectors.groups.stalls.all_stalls import all_stalls


class GroupRow(Struct, frozen=True):
    """A group. Times are in ns since the epoch, 0 if unknown; `*_ns` are durations in ns; `row` is the latest row.

    `members` is the number of current members, `lanes` the number of all members ever seen. `worst` is the most severe
    ongoing stall, else the latest ended one; `stalls` counts ongoing stalls, `ended_stalls` the others.
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
    ended_stalls: int
    worst: Stall | None
    first_at: int
    last_at: int
    row: int


class MemberRow(Struct, frozen=True):
    """A lane of a group. Times are in ns since the epoch, 0 if unknown; `since` is when its state began.

    `row` is its first row.
    """

    key: str
    label: str
    member_id: str
    client_id: str
    client: str
    connection_id: str
    state: MembershipState
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
    """A lane with its events, as far as they are kept, and its periods of membership (ns; end None: it is a member).

    `transitions` change the membership, `recurring` events repeat during it; both are in order. They are not copies,
    and grow while the overview reads lines.
    """

    member: MemberRow
    transitions: Sequence[Event]
    recurring: Sequence[Event]
    memberships: Sequence[tuple[int, int | None]]


class GroupView(Struct, frozen=True):
    """Everything about a group, for its timeline (`kproxy.groups.timeline`) and the lists next to it.

    `lanes` begin with current members, `stalls` with ongoing ones, the most severe first; ended stalls follow, the
    latest first. `lanes_evicted`, `events_evicted` and `stalls_evicted` count what is no longer kept.
    """

    row: GroupRow
    now: int
    lanes: tuple[LaneView, ...]
    boundaries: tuple[Boundary, ...]
    stalls: tuple[Stall, ...]
    lanes_evicted: int
    events_evicted: int
    stalls_evicted: int


def group_row(group: GroupHistory, now: int) -> GroupRow:
    """Return the row of a group at time `now` (ns)."""
    return _group_row(group, all_stalls(group, now))


def _group_row(group: GroupHistory, stalls: Sequence[Stall]) -> GroupRow:
    ongoing_count = sum(stall.until is None for stall in stalls)
    leader = group.lanes.get(group.leader)
    return GroupRow(
        group=group.id,
        protocol=group.protocol,
        state=group.status(),
        generation=group.generation,
        members=len(group.current_members()),
        lanes=len(group.lanes),
        leader=leader.label if leader is not None and leader.state in MEMBER_STATES else "",
        coordinator=group.coordinator,
        commits=group.commits,
        commit_at=group.commit_at,
        rebalances=group.rebalances,
        longest_rebalance_ns=group.longest_rebalance,
        errors=group.errors.row(),
        stalls=ongoing_count,
        ended_stalls=len(stalls) - ongoing_count,
        worst=stalls[0] if stalls else None,
        first_at=group.first,
        last_at=group.last,
        row=group.row,
    )


def member_row(group: GroupHistory, lane: Lane) -> MemberRow:
    """Return the row of a lane in its current state."""
    return MemberRow(
        key=lane.key,
        label=lane.label,
        member_id=lane.member_id,
        client_id=lane.client_id,
        client=lane.client,
        connection_id=lane.connection_id,
        state=lane.state,
        since=lane.since,
        generation=lane.generation,
        leader=lane.key == group.leader and lane.state in MEMBER_STATES,
        commits=lane.commits,
        commit_at=lane.commit_at,
        errors=lane.errors.row(),
        first_at=lane.first,
        last_at=lane.last,
        row=lane.row,
    )


def group_view(group: GroupHistory, now: int) -> GroupView:
    """Return everything that is kept about a group, as of time `now` (ns)."""
    member_keys = {lane.key for lane in group.current_members()}
    lanes = sorted(group.lanes.values(), key=lambda lane: (lane.key not in member_keys, lane.first, lane.row))
    stalls = all_stalls(group, now)
    return GroupView(
        row=_group_row(group, stalls),
        now=now,
        lanes=tuple(
            LaneView(member_row(group, lane), lane.transitions, lane.recurring, tuple(lane.memberships))
            for lane in lanes
        ),
        boundaries=tuple(group.boundaries),
        stalls=stalls,
        lanes_evicted=group.lanes.evicted,
        events_evicted=group.events_evicted,
        stalls_evicted=group.stalls_evicted,
    )
