"""Groups and members as rows, as they are at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from kproxy.browse.overviews.groups import members, waits
from kproxy.browse.overviews.groups.model import (
    COUNTED,
    SECOND,
    Boundary,
    Event,
    Group,
    Lane,
    Protocol,
    Rebalance,
    Stall,
    StallKind,
    Standing,
    State,
)
from kproxy.outputs.findings import RANK

#: Rules that say what a stall says, so that it is told once.
SAME = {
    "S012": (),
    "S013": (StallKind.SYNC_MISSING, StallKind.LOST),
    "S014": (StallKind.JOIN_WAITS,),
    "S015": (StallKind.REFUSED,),
    "S016": (StallKind.JOIN_LOOP,),
    "S019": (StallKind.SILENT, StallKind.LOST),
    "S020": (StallKind.REFUSED, StallKind.COMMIT_REFUSED),
    "S022": (StallKind.COORDINATOR,),
    "S023": (StallKind.COORDINATOR,),
}

#: A rule waits for its deadline, which can be behind the end of what it tells of.
_NEAR = 5 * SECOND


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group; times in ns since the epoch, 0 where there was none, `*_ns` in ns, `row` the latest of the index.

    `members` are those that the coordinator counts, `lanes` all that were seen. `rebalancing_since` is None if no
    rebalance is going on. `worst` is the stall to look at first, `stalls` how many there are now, `past` that are over.
    """

    group: str
    protocol: Protocol
    state: State
    generation: int
    members: int
    lanes: int
    leader: str
    coordinator: str
    commits: int
    commit_at: int
    rebalances: int
    rebalancing_since: int | None
    last_rebalance_ns: int | None
    longest_rebalance_ns: int | None
    errors: tuple[tuple[str, int], ...]
    stalls: int
    past: int
    worst: Stall | None
    first_at: int
    last_at: int
    row: int


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A lane of a group; times in ns since the epoch, 0 where there was none. `row` is the first of the index.

    `interval_ns` is how far its heartbeats usually lie apart, 0 while that is not known; `since`: its standing.
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
    heartbeat_at: int
    interval_ns: int
    commits: int
    commit_at: int
    errors: tuple[tuple[str, int], ...]
    first_at: int
    last_at: int
    row: int


@dataclass(frozen=True, slots=True)
class LaneView:
    """A lane with what happened in it, as far as it is kept, and the times of its membership (ns; None: still).

    `steps` change a membership, `beats` repeat while it lasts, each in order. They are the overview's own and grow.
    """

    member: MemberRow
    steps: Sequence[Event]
    beats: Sequence[Event]
    spells: Sequence[tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class GroupView:
    """Everything about a group: for a timeline (`kproxy.browse.overviews.groups.timeline`) and the lists beside it.

    `lanes` begin with those that are members; `stalls` with those that last, the worst first, then the latest.
    `lanes_let_go`, `events_let_go` and `stalls_let_go` are how many are no longer kept.
    """

    row: GroupRow
    now: int
    lanes: tuple[LaneView, ...]
    boundaries: tuple[Boundary, ...]
    rebalances: tuple[Rebalance, ...]
    stalls: tuple[Stall, ...]
    lanes_let_go: int
    events_let_go: int
    stalls_let_go: int


def state(group: Group) -> State:
    """How a group stands."""
    counted = group.counted()
    if not counted:
        left = any(lane.standing is Standing.LEFT for lane in group.lanes.values())
        return State.EMPTY if left else State.UNKNOWN
    if all(lane.standing is Standing.LOST for lane in counted):
        return State.UNKNOWN
    if group.protocol is not Protocol.CLASSIC:
        return State.RECONCILING if group.begun is not None else State.STABLE
    if any(lane.standing is Standing.JOINING for lane in counted):
        return State.PREPARING
    if group.begun is None:
        return State.STABLE
    return State.PREPARING if group.begun.generation == group.generation else State.COMPLETING


def lasting(group: Group, now: int) -> list[Stall]:
    """What stands still now, the worst first, then what began first."""
    found = list(chain(waits.joins(group, now), waits.syncs(group, now), waits.lagging(group, now),
                       waits.coordinator(group, now), _of_lanes(group, now)))  # fmt: skip
    return sorted(found, key=lambda stall: (-RANK.get(stall.severity, 0), stall.since))


def _of_lanes(group: Group, now: int) -> Iterator[Stall]:
    for lane in group.lanes.values():
        yield from members.not_rejoining(group, lane, now)
        yield from members.silence(group, lane, now)
        yield from members.lost(group, lane, now)
        yield from members.looping(group, lane, now)
        yield from members.unanswered(group, lane, now)
        for streak in lane.refused.values():
            yield from members.refusal(group, lane, streak)


def all_stalls(group: Group, now: int) -> tuple[Stall, ...]:
    """What stands still, then what did, the latest first; a rule that says the same is a code of it."""
    told = _distinct(lasting(group, now) + sorted(group.past, key=lambda stall: -stall.since), now)
    own = [stall for stall in told if stall.kind is not StallKind.FINDING]
    rest: list[Stall] = []
    for finding in (stall for stall in told if stall.kind is StallKind.FINDING):
        for place, stall in enumerate(own):
            if _says(finding, stall, now):
                if finding.codes[0] not in stall.codes:
                    own[place] = replace(stall, codes=(*stall.codes, *finding.codes))
                break
        else:
            rest.append(finding)
    lasts = [stall for stall in own if stall.until is None]
    return (*lasts, *sorted((*own[len(lasts) :], *rest), key=lambda stall: -stall.since))


#: What the stall of those who wait for a member says of it too.
_SAID = frozenset({StallKind.NOT_REJOINING, StallKind.LOST, StallKind.SILENT})


def _distinct(told: list[Stall], now: int) -> list[Stall]:
    """Without what is said of a member where others wait for it."""
    waits = [stall for stall in told if stall.kind is StallKind.JOIN_WAITS]
    return [
        stall
        for stall in told
        if stall.kind not in _SAID
        or not any(
            {*each.blamed}.issuperset(stall.blamed)
            and each.since <= (now if stall.until is None else stall.until)
            and stall.since <= (now if each.until is None else each.until)
            for each in waits
        )
    ]


def _says(finding: Stall, stall: Stall, now: int) -> bool:
    """Whether a finding tells of that stall: its kind, time and member."""
    ends = now if stall.until is None else stall.until
    return (
        stall.kind in SAME.get(finding.codes[0], ())
        and stall.since <= finding.since <= ends + _NEAR
        and (not finding.who or not {*finding.who}.isdisjoint((*stall.who, *stall.blamed)))
    )


def group_row(group: Group, now: int) -> GroupRow:
    """A group as it is at `now`."""
    told = all_stalls(group, now)
    lasts = sum(stall.until is None for stall in told)
    lengths = [each.until - each.since for each in group.rebalanced]
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
        rebalancing_since=group.begun.at if group.begun is not None else None,
        last_rebalance_ns=lengths[-1] if lengths else None,
        longest_rebalance_ns=max(lengths, default=None),
        errors=group.errors.row(),
        stalls=lasts,
        past=len(told) - lasts,
        worst=told[0] if lasts else None,
        first_at=group.first,
        last_at=group.last,
        row=group.row,
    )


def member_row(group: Group, lane: Lane) -> MemberRow:
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
        heartbeat_at=lane.beat_at,
        interval_ns=lane.interval,
        commits=lane.commits,
        commit_at=lane.commit_at,
        errors=lane.errors.row(),
        first_at=lane.first,
        last_at=lane.last,
        row=lane.row,
    )


def group_view(group: Group, now: int) -> GroupView:
    """Everything that is kept of a group, as it is at `now`."""
    counted = {lane.key for lane in group.counted()}
    lanes = sorted(group.lanes.values(), key=lambda lane: (lane.key not in counted, lane.first, lane.row))
    return GroupView(
        row=group_row(group, now),
        now=now,
        lanes=tuple(LaneView(member_row(group, lane), lane.steps, lane.beats, tuple(lane.spells)) for lane in lanes),
        boundaries=tuple(group.boundaries),
        rebalances=tuple(group.rebalanced),
        stalls=all_stalls(group, now),
        lanes_let_go=group.lanes.let_go,
        events_let_go=group.events_let_go,
        stalls_let_go=group.stalls_let_go,
    )
