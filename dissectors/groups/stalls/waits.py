"""Stalls of a whole group: what it waits for, when the wait began, why, and what to check.

Each function yields the stalls of a group at time `at` (ns), as the functions of `dissectors.groups.stalls.members` do
for one member.
"""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.groups import explanations
from dissectors.groups.model import SECOND, GroupHistory, Lane, MembershipState, Protocol, Stall, StallKind
from dissectors.groups.stalls.members import SESSION_TIMEOUT, exceeded_silence_limit
from dissectors.groups.stalls.wording import elapsed, has_or_have, keys, names, severity_after
from dissectors.plain_text import printable_text

#: A JoinGroup stalls after this time (ns). In a new group, it takes 3 s (group.initial.rebalance.delay.ms); later, it
#: takes until all members have sent their next heartbeat.
MAX_JOIN_WAIT = 5 * SECOND
#: How long (ns) the leader may take to send the assignment, or a member to request it.
MAX_SYNC_WAIT_NS = 3 * SECOND

MAX_EPOCH_LAG = 10 * SECOND
MIN_OUTAGE = 3 * SECOND

#: How long (ns) an unused member id may explain a wait: the coordinator drops it after the session timeout.
_PENDING_TIMEOUT = SESSION_TIMEOUT + 5 * SECOND

#: What a member has to give up before others get it, in the protocols in which the coordinator waits for that.
_REVOKED_UNITS = {Protocol.CONSUMER: "partitions", Protocol.STREAMS: "tasks"}

#: The most missing members for which a reason is given.
_MAX_REASONS = 3


def join_wait_stalls(group: GroupHistory, at: int) -> Iterator[Stall]:
    """Yield the stall of JoinGroup requests without a response: the coordinator waits until every member has joined."""
    if group.protocol is not Protocol.CLASSIC:
        return
    waiting = [
        (lane.request.at, lane) for lane in group.lanes_in_state(MembershipState.JOINING) if lane.request is not None
    ]
    waiting.sort(key=_wait_start)
    if not waiting or at - waiting[0][0] <= MAX_JOIN_WAIT:
        return
    # The coordinator answers all joins of a round at the same time, so it has lost earlier requests without a response.
    unanswered_lanes = [lane for since, lane in waiting if since + SECOND < group.generation_at < at - SECOND]
    if unanswered_lanes:
        yield _unanswered_join_stall(group, unanswered_lanes, at)
        return
    since, first_lane = waiting[0]
    lanes = [lane for _, lane in waiting]
    missing = [lane for lane in group.current_members() if lane.state is not MembershipState.JOINING]
    missing.sort(key=_cause_rank)
    reasons = [_missing_text(group, lane, at) for lane in missing[:_MAX_REASONS]]
    if len(missing) > _MAX_REASONS:
        reasons.append(f"{len(missing) - _MAX_REASONS} more")
    reasons += [
        f"the member id that {pending.label} got {elapsed(at - pending.at)} earlier but has not used"
        for pending in list(group.pending_ids.values())[-1:]
        if at - pending.at <= _PENDING_TIMEOUT
    ]
    waited_text = f"{names(lanes)} {has_or_have(lanes)} waited {elapsed(at - since)} for the JoinGroup response"
    if reasons:
        text = f"{waited_text}: the coordinator waits until every member has joined; missing: {'; '.join(reasons)}"
    else:
        text = (
            f"{waited_text}, although no member visible here is missing: the coordinator waits for one that does not "
            "use this proxy, or it lost the request"
        )
    assert first_lane.request is not None
    hint = _join_wait_hint(missing, bool(group.pending_ids))
    yield Stall(
        StallKind.JOIN_WAITS,
        severity_after(at - since),
        since,
        first_lane.request.row,
        text,
        hint,
        keys(lanes),
        keys(missing),
    )


def _wait_start(waiting: tuple[int, Lane]) -> int:
    return waiting[0]


def _cause_rank(lane: Lane) -> int:
    """Return a sort key that puts members that disappeared first, then members that got REBALANCE_IN_PROGRESS."""
    return 0 if lane.state is MembershipState.LOST else 1 if lane.rejoin_signals is not None else 2


def _unanswered_join_stall(group: GroupHistory, lanes: list[Lane], at: int) -> Stall:
    first = lanes[0].request
    assert first is not None
    return Stall(
        StallKind.JOIN_UNANSWERED,
        "error",
        first.at,
        first.row,
        f"JoinGroup of {names(lanes)} has had no response for {elapsed(at - first.at)}, although others that joined in "
        f"the same round got generation {group.generation} {elapsed(at - group.generation_at)} earlier",
        "the coordinator lost this request: check its log; the client gives up after its request timeout and rejoins",
        keys(lanes),
    )


def _missing_text(group: GroupHistory, lane: Lane, at: int) -> str:
    """Describe a member that has not joined: its label and the probable reason."""
    if lane.state is MembershipState.LOST:
        return f"{lane.label} ({lane.end_reason} {elapsed(at - lane.since)} earlier, without LeaveGroup)"
    if lane.rejoin_signals is not None:
        heartbeats = "it sends heartbeats" if exceeded_silence_limit(group, lane, at) is None else "now silent"
        times = f"{lane.rejoin_signals.count} times" if lane.rejoin_signals.count > 1 else "once"
        return f"{lane.label} ({heartbeats}, got REBALANCE_IN_PROGRESS {times} but does not rejoin)"
    if exceeded_silence_limit(group, lane, at) is not None:
        return f"{lane.label} (silent for {elapsed(at - lane.heartbeat_at)})"
    return f"{lane.label} (has not rejoined yet)"


def _join_wait_hint(missing: list[Lane], has_pending_id: bool) -> str:
    if any(lane.state is MembershipState.LOST for lane in missing):
        return (
            "find out why that process disappeared (killed, or a static member); the coordinator waits for it "
            "until its session.timeout.ms expires"
        )
    if any(lane.rejoin_signals for lane in missing):
        return (
            "check the poll loop of the missing member: it joins only in poll(), so check its work between "
            "two polls; the "
            "coordinator gives up on it after its max.poll.interval.ms"
        )
    if missing:
        return (
            "find out what blocks the silent process (a debugger, garbage collection, no CPU); check session.timeout.ms"
        )
    if has_pending_id:
        return (
            "fix the client that got this member id: it must join with it at once; the group waits for it for one "
            "session.timeout.ms"
        )
    return (
        "list all members (kafka-consumer-groups --describe --members) and check the coordinator's log; a new group "
        "waits for group.initial.rebalance.delay.ms"
    )


def sync_wait_stalls(group: GroupHistory, at: int) -> Iterator[Stall]:
    """Yield the stall of a generation without assignments: not sent by the leader, or not requested by a member."""
    late_lanes = [lane for lane in group.lanes_in_state(MembershipState.JOINED) if at - lane.since > MAX_SYNC_WAIT_NS]
    waiting_lanes = [
        lane
        for lane in group.lanes_in_state(MembershipState.SYNCING)
        if lane.request is not None and at - lane.request.at > MAX_SYNC_WAIT_NS
    ]
    if not late_lanes and not waiting_lanes:
        return
    leader = group.lanes.get(group.leader)
    if leader is not None and leader.state is MembershipState.SYNCING and leader not in waiting_lanes:
        return  # the leader has just sent the assignment
    if leader in late_lanes or (late_lanes and not waiting_lanes):
        assert late_lanes
        yield _missing_sync_stall(group, late_lanes, waiting_lanes, leader if leader in late_lanes else None, at)
    elif waiting_lanes:
        request = waiting_lanes[0].request
        assert request is not None
        served_lanes = [
            lane for lane in group.lanes.values() if lane.state is MembershipState.MEMBER and lane.since > request.at
        ]
        if served_lanes:
            since = min(lane.since for lane in served_lanes)
            if at - since < SECOND:
                return
            cause = f"{names(served_lanes)} {has_or_have(served_lanes)} been answered {elapsed(at - since)} earlier"
            hint = "the coordinator lost this request: check its log; the client gives up after its request timeout"
        elif leader in waiting_lanes:
            cause = f"the leader, {leader.label}, has sent the assignment, but the coordinator does not respond"
            hint = "check the broker: it must write the assignment to __consumer_offsets first (min.insync.replicas)"
        else:
            leader_name = (
                f"{leader.label}, the leader," if leader is not None else "the leader, which is not visible here,"
            )
            cause = f"{leader_name} has not sent the assignment"
            hint = "check the leader (its assignor runs in the client): a blocked leader blocks the whole group"
        yield Stall(
            StallKind.SYNC_WAITS,
            severity_after(at - request.at),
            request.at,
            request.row,
            f"{names(waiting_lanes)} {has_or_have(waiting_lanes)} waited {elapsed(at - request.at)} for the SyncGroup "
            f"response in generation {group.generation}: {cause}",
            hint,
            keys(waiting_lanes),
            () if served_lanes or leader is None or leader in waiting_lanes else (leader.key,),
        )


def _missing_sync_stall(
    group: GroupHistory, late_lanes: list[Lane], waiting_lanes: list[Lane], leader: Lane | None, at: int
) -> Stall:
    """Return the stall of members that have joined but send no SyncGroup."""
    first = leader or min(late_lanes, key=lambda lane: lane.since)
    text = (
        f"{first.label if leader else names(late_lanes)} {'has' if leader else has_or_have(late_lanes)} sent no "
        f"SyncGroup for {elapsed(at - first.since)} after the JoinGroup response (generation {group.generation})"
    )
    if leader is not None:
        text += "; it is the leader, so no member has an assignment"
        text += f", and {names(waiting_lanes)} {has_or_have(waiting_lanes)} to wait" if waiting_lanes else ""
    else:
        text += ": it has no assignment and reads nothing"
    return Stall(
        StallKind.SYNC_MISSING,
        severity_after(at - first.since),
        first.since,
        first.request.row if first.request is not None else first.row,
        text,
        "check whether the client can read the JoinGroup response (its log; that frame's findings), and whether it is "
        "blocked in its assignor or a rebalance callback",
        keys(waiting_lanes),
        (first.key,) if leader else keys(late_lanes),
    )


def lagging_epoch_stalls(group: GroupHistory, at: int) -> Iterator[Stall]:
    """Yield the stall of members with an old epoch: they have not revoked partitions or tasks that others wait for.

    Only the protocols of KIP-848 and KIP-1071 wait for that. In a share group, nothing is revoked.
    """
    unit = _REVOKED_UNITS.get(group.protocol)
    if unit is None or at - group.generation_at < MAX_EPOCH_LAG:
        return
    members = [lane for lane in group.lanes.values() if lane.state is MembershipState.MEMBER]
    lagging = [lane for lane in members if 0 <= lane.generation < group.generation]
    if not lagging:
        return
    epochs = ", ".join(sorted({str(lane.generation) for lane in lagging}))
    boundary = group.boundaries[-1] if group.boundaries else None
    yield Stall(
        StallKind.LAGGING,
        severity_after(at - group.generation_at),
        group.generation_at,
        boundary.row if boundary is not None else group.row,
        f"{names(lagging)} {'are' if len(lagging) > 1 else 'is'} at epoch {epochs}, and the group at "
        f"{group.generation} for {elapsed(at - group.generation_at)}: {unit} that others wait for have not been "
        "revoked",
        f"check the poll loop of the member that is behind: it gives up {unit} in poll(); after "
        "max.poll.interval.ms it is fenced",
        keys([lane for lane in members if lane not in lagging]),
        keys(lagging),
        times=len(lagging),
    )


def no_coordinator_stalls(group: GroupHistory, at: int) -> Iterator[Stall]:
    """Yield the stall of a group whose coordinator is unavailable or still loading, or is another broker."""
    streak = group.coordinator_errors
    if streak is None:
        return
    explanation = explanations.explanation(streak.api, streak.error)
    if streak.count < explanation.threshold or streak.last - streak.first < MIN_OUTAGE:
        return
    yield Stall(
        StallKind.COORDINATOR,
        severity_after(streak.last - streak.first),
        streak.first,
        streak.row,
        f"members of the group got {streak.error} from {streak.api} {streak.count} times within "
        f"{elapsed(streak.last - streak.first)}: {explanation.reason}",
        explanation.hint,
        error=streak.error,
        times=streak.count,
    )


def coordinator_move_stall(group: GroupHistory, server: str, at: int, row: int) -> Stall:
    """Return the stall of a group whose coordinator moved to `server` after `coordinator_seen_at`."""
    since = group.coordinator_seen_at
    return Stall(
        StallKind.COORDINATOR,
        "info",
        since,
        row,
        f"the group's coordinator is {printable_text(server)}, previously {printable_text(group.coordinator)}: members "
        f"found it {elapsed(at - since)} after the last response of the previous one",
        "check whether the previous broker restarted or lost a partition of __consumer_offsets",
    )
