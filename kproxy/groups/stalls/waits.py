"""What a whole group waits for, since when and why: sentences for people who have a consumer that hangs.

Each function looks at a group as it is at a time `at` (ns), and yields what stands still then, as those of
`kproxy.groups.stalls.members` do of one member.
"""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.groups import explanations
from kproxy.groups.model import SECOND, GroupHistory, Lane, Protocol, Stall, StallKind, Standing
from kproxy.groups.stalls.members import SESSION, silence_limit
from kproxy.groups.stalls.wording import ago, have, keys, names, severe
from kproxy.trace.formatting import safe

#: A JoinGroup is waited for when it takes longer than this (ns): that of a new group takes 3 s
#: (group.initial.rebalance.delay.ms), others until all members have sent their next heartbeat.
JOIN_PATIENCE = 5 * SECOND
#: So long (ns) may a leader take for its assignment, or a member to ask for it.
SYNC_PATIENCE = 3 * SECOND

EPOCH_PATIENCE = 10 * SECOND
DENIED_PATIENCE = 3 * SECOND

#: Members of whom it is said why they have not joined.
_MOST_REASONS = 3


def joins(group: GroupHistory, at: int) -> Iterator[Stall]:
    """JoinGroup requests without an answer: the coordinator waits until every member has joined."""
    if group.protocol is not Protocol.CLASSIC:
        return
    waiting = [(lane.asked.at, lane) for lane in group.in_standing(Standing.JOINING) if lane.asked is not None]
    waiting.sort(key=_since)
    if not waiting or at - waiting[0][0] <= JOIN_PATIENCE:
        return
    # A round of joining is answered to all at once: who had asked long before that was left out.
    left_out = [lane for since, lane in waiting if since + SECOND < group.generation_at < at - SECOND]
    if left_out:
        yield _left_out(group, left_out, at)
        return
    since, first = waiting[0]
    lanes = [lane for _, lane in waiting]
    missing = [lane for lane in group.counted() if lane.standing is not Standing.JOINING]
    missing.sort(key=_silent_first)
    reasons = [_missing(group, lane, at) for lane in missing[:_MOST_REASONS]]
    if len(missing) > _MOST_REASONS:
        reasons.append(f"{len(missing) - _MOST_REASONS} more")
    reasons += [
        f"the member id that {given.label} got {ago(at - given.at)} earlier but has not used"
        for given in list(group.given.values())[-1:]
        if at - given.at <= SESSION
    ]
    wait = f"{names(lanes)} {have(lanes)} waited {ago(at - since)} for the JoinGroup response"
    if reasons:
        text = f"{wait}: the coordinator waits until every member has joined; missing: {'; '.join(reasons)}"
    else:
        text = f"{wait}, but no member visible here is missing"
    assert first.asked is not None
    look = _look(missing, bool(group.given))
    yield Stall(
        StallKind.JOIN_WAITS, severe(at - since), since, first.asked.row, text, look, keys(lanes), keys(missing)
    )


def _since(waiting: tuple[int, Lane]) -> int:
    return waiting[0]


def _silent_first(lane: Lane) -> int:
    """Who is gone says most of why the others wait, then who was told to join."""
    return 0 if lane.standing is Standing.LOST else 1 if lane.told is not None else 2


def _left_out(group: GroupHistory, lanes: list[Lane], at: int) -> Stall:
    first = lanes[0].asked
    assert first is not None
    return Stall(
        StallKind.JOIN_UNANSWERED,
        "error",
        first.at,
        first.row,
        f"JoinGroup of {names(lanes)} has had no response for {ago(at - first.at)}, although others that joined in the "
        f"same round got generation {group.generation} {ago(at - group.generation_at)} earlier",
        "the coordinator lost this request: check its log; the client gives up after its request timeout and rejoins",
        keys(lanes),
    )


def _missing(group: GroupHistory, lane: Lane, at: int) -> str:
    """A member that has not joined, and what can be said of it."""
    if lane.standing is Standing.LOST:
        return f"{lane.label} ({lane.gone} {ago(at - lane.since)} earlier, without LeaveGroup)"
    if lane.told is not None:
        beats = "it sends heartbeats" if silence_limit(group, lane, at) is None else "now silent"
        times = f"{lane.told.count} times" if lane.told.count > 1 else "once"
        return f"{lane.label} ({beats}, was told {times} to rejoin but does not)"
    if silence_limit(group, lane, at) is not None:
        return f"{lane.label} (silent for {ago(at - lane.beat_at)})"
    return f"{lane.label} (has not rejoined yet)"


def _look(missing: list[Lane], given: bool) -> str:
    if any(lane.standing is Standing.LOST for lane in missing):
        return (
            "find out why that process disappeared (killed, or a static member); the coordinator waits for it "
            "until its session.timeout.ms expires"
        )
    if any(lane.told for lane in missing):
        return (
            "check the poll loop of the missing member: it joins only in poll(), so check its work between "
            "two polls; the "
            "coordinator gives up on it after its max.poll.interval.ms"
        )
    if missing:
        return (
            "find out what blocks the silent process (a debugger, garbage collection, no CPU); check session.timeout.ms"
        )
    if given:
        return "a client requested a member id but did not join with it: the group waits for one session.timeout.ms"
    return (
        "check for members that do not use this proxy (kafka-consumer-groups --describe --members lists all); a new "
        "group waits for group.initial.rebalance.delay.ms"
    )


def syncs(group: GroupHistory, at: int) -> Iterator[Stall]:
    """Generations without an assignment: the leader has not sent it, or a member does not ask for it."""
    late = [lane for lane in group.in_standing(Standing.JOINED) if at - lane.since > SYNC_PATIENCE]
    waiting = [
        lane
        for lane in group.in_standing(Standing.SYNCING)
        if lane.asked is not None and at - lane.asked.at > SYNC_PATIENCE
    ]
    if not late and not waiting:
        return
    leader = group.lanes.get(group.leader)
    if leader is not None and leader.standing is Standing.SYNCING and leader not in waiting:
        return  # the assignment is there since a moment
    if leader in late or (late and not waiting):
        assert late
        yield _not_asked(group, late, waiting, leader if leader in late else None, at)
    elif waiting:
        asked = waiting[0].asked
        assert asked is not None
        served = [lane for lane in group.lanes.values() if lane.standing is Standing.MEMBER and lane.since > asked.at]
        if served:
            since = min(lane.since for lane in served)
            if at - since < SECOND:
                return
            cause = f"{names(served)} {have(served)} been answered {ago(at - since)} earlier"
            look = "the coordinator lost this request: check its log; the client gives up after its request timeout"
        elif leader in waiting:
            cause = f"the leader, {leader.label}, has sent the assignment, but the coordinator does not respond"
            look = "check the broker: it must write the assignment to __consumer_offsets first (min.insync.replicas)"
        else:
            whom = f"{leader.label}, the leader," if leader is not None else "the leader, which is not visible here,"
            cause = f"{whom} has not sent the assignment"
            look = "check the leader (its assignor runs in the client): a blocked leader blocks the whole group"
        yield Stall(
            StallKind.SYNC_WAITS,
            severe(at - asked.at),
            asked.at,
            asked.row,
            f"{names(waiting)} {have(waiting)} waited {ago(at - asked.at)} for the SyncGroup response in generation "
            f"{group.generation}: {cause}",
            look,
            keys(waiting),
            () if served or leader is None or leader in waiting else (leader.key,),
        )


def _not_asked(group: GroupHistory, late: list[Lane], waiting: list[Lane], leader: Lane | None, at: int) -> Stall:
    """Members that have joined and send no SyncGroup."""
    first = leader or min(late, key=lambda lane: lane.since)
    text = (
        f"{first.label if leader else names(late)} {'has' if leader else have(late)} sent no SyncGroup for "
        f"{ago(at - first.since)} after the JoinGroup response (generation {group.generation})"
    )
    if leader is not None:
        text += "; it is the leader, so no member has an assignment"
        text += f", and {names(waiting)} {have(waiting)} to wait" if waiting else ""
    else:
        text += ": it has no assignment and reads nothing"
    return Stall(
        StallKind.SYNC_MISSING,
        severe(at - first.since),
        first.since,
        first.asked.row if first.asked is not None else first.row,
        text,
        "check whether the client can read the JoinGroup response (its log; that frame's findings), and whether it is "
        "blocked in its assignor or a rebalance callback",
        keys(waiting),
        (first.key,) if leader else keys(late),
    )


def lagging(group: GroupHistory, at: int) -> Iterator[Stall]:
    """Members whose epoch stays behind (KIP-848): they have not given up what others are to get."""
    if group.protocol in (Protocol.CLASSIC, Protocol.UNKNOWN) or at - group.generation_at < EPOCH_PATIENCE:
        return
    here = [lane for lane in group.lanes.values() if lane.standing is Standing.MEMBER]
    behind = [lane for lane in here if 0 <= lane.generation < group.generation]
    if not behind:
        return
    epochs = ", ".join(sorted({str(lane.generation) for lane in behind}))
    last = group.boundaries[-1] if group.boundaries else None
    yield Stall(
        StallKind.LAGGING,
        severe(at - group.generation_at),
        group.generation_at,
        last.row if last is not None else group.row,
        f"{names(behind)} {'are' if len(behind) > 1 else 'is'} at epoch {epochs}, and the group at {group.generation} "
        f"for {ago(at - group.generation_at)}: partitions that others wait for have not been revoked",
        "check the poll loop of the member that is behind: it gives up partitions in poll(); after "
        "max.poll.interval.ms it is fenced",
        keys([lane for lane in here if lane not in behind]),
        keys(behind),
        times=len(behind),
    )


def coordinator(group: GroupHistory, at: int) -> Iterator[Stall]:
    """A coordinator that is none, is not there, or is not ready."""
    denied = group.denied
    if denied is None:
        return
    told = explanations.meaning(denied.error)
    if denied.count < told.times or denied.last - denied.first < DENIED_PATIENCE:
        return
    yield Stall(
        StallKind.COORDINATOR,
        severe(denied.last - denied.first),
        denied.first,
        denied.row,
        f"members of the group got {denied.error} {denied.count} times within {ago(denied.last - denied.first)}: "
        f"{told.why}",
        told.look,
        error=denied.error,
        times=denied.count,
    )


def moved(group: GroupHistory, server: str, at: int, row: int) -> Stall:
    """Another broker, `server`, is the group's coordinator; the one before has not answered since `coordinated_at`."""
    since = group.coordinated_at
    return Stall(
        StallKind.COORDINATOR,
        "info",
        since,
        row,
        f"the group's coordinator is {safe(server)}, previously {safe(group.coordinator)}: members found it "
        f"{ago(at - since)} after the last response of the previous one",
        "check whether the previous broker restarted or lost a partition of __consumer_offsets",
    )
