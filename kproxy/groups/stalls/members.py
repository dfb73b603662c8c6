"""What stands still with one member, since when and why: sentences for people who have a consumer that hangs.

Each function looks at a member as it is at a time `at` (ns), and yields what stands still then. So the same words serve
what stands still now and what is over: for that they are asked just before it ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.groups import explanations
from kproxy.groups.model import SECOND, EventKind, GroupHistory, Lane, Protocol, Stall, StallKind, Standing, Streak
from kproxy.groups.stalls.wording import ago, severe
from kproxy.trace.formatting import safe

#: Heartbeats are missed when so many usual intervals have passed without one, and at least so long (ns): twice the
#: defaults of heartbeat.interval.ms and group.consumer.heartbeat.interval.ms, since they come in bursts at first.
MISSED = 3
LEAST_SILENCE = 6 * SECOND
LEAST_SILENCE_OF_EPOCHS = 10 * SECOND
#: A member that is gone for less (ns) may be on its way to another connection.
LEAST_LOSS = 3 * SECOND
#: Kafka's default session timeout (ns): what is lost for longer, and seen by nobody, is no news any more.
SESSION = 45 * SECOND

#: Answers, but for those to JoinGroup and SyncGroup, that come later than this (ns) are waited for.
PATIENCE = 5 * SECOND

TOLD = 3  # REBALANCE_IN_PROGRESS in a row,
TOLD_FOR = 3 * SECOND  # and over so long (ns)
UNSYNCED = 4  # joins in a row without an assignment


def is_well(lane: Lane, at: int) -> bool:
    """Whether none of the functions below finds a stall. Cheaper than calling them: almost all members are well."""
    return (
        not lane.waiting
        and not lane.refused
        and lane.told is None
        and lane.unsynced < UNSYNCED
        and (
            at - lane.beat_at <= LEAST_SILENCE
            if lane.standing is Standing.MEMBER
            else lane.standing is not Standing.LOST
        )
    )


def not_rejoining(group: GroupHistory, lane: Lane, at: int) -> Iterator[Stall]:
    """A member that is told again and again to join, and only sends heartbeats."""
    told = lane.told
    if told is None or told.count < TOLD or told.last - told.first < TOLD_FOR or lane.standing is not Standing.MEMBER:
        return
    yield Stall(
        StallKind.NOT_REJOINING,
        severe(at - told.first),
        told.first,
        told.row,
        f"{lane.label} was told {told.count} times within {ago(told.last - told.first)} that the group rebalances "
        "(REBALANCE_IN_PROGRESS), but has not rejoined: it sends heartbeats, but its application does not poll",
        "check what the application does between two polls; after max.poll.interval.ms the group continues without it",
        blamed=(lane.key,),
        error=told.error,
        times=told.count,
    )


def silence_limit(group: GroupHistory, lane: Lane, at: int) -> int | None:
    """How long a member may be silent, in ns, if it has now been for longer; else None."""
    usual = lane.interval
    if lane.standing is not Standing.MEMBER or lane.gone or not usual:
        return None
    floor = LEAST_SILENCE if group.protocol is Protocol.CLASSIC else LEAST_SILENCE_OF_EPOCHS
    limit = max(MISSED * usual, floor)
    return limit if at - lane.beat_at > limit else None


def silence(group: GroupHistory, lane: Lane, at: int) -> Iterator[Stall]:
    """A member whose heartbeats stopped."""
    if silence_limit(group, lane, at) is None or any(each.at >= lane.beat_at for each in lane.waiting.values()):
        return  # who has not been answered is not silent: see `unanswered`
    yield Stall(
        StallKind.SILENT,
        severe(at - lane.beat_at),
        lane.beat_at,
        lane.beat_row,
        f"{lane.label} has sent nothing for {ago(at - lane.beat_at)}, after a heartbeat every {ago(lane.interval)}"
        "; its connection is open, so its process is blocked",
        "find out what blocks the process (a debugger, garbage collection, a suspended container, no CPU); after "
        "session.timeout.ms, other members get its partitions",
        blamed=(lane.key,),
    )


def lost(group: GroupHistory, lane: Lane, at: int) -> Iterator[Stall]:
    """A member that went away and did not say so."""
    since = lane.since
    if lane.standing is not Standing.LOST or at - since < LEAST_LOSS:
        return
    others = any(each.standing is Standing.MEMBER and each.beat_at > since for each in group.lanes.values())
    if not others and at - since > SESSION:
        return
    yield Stall(
        StallKind.LOST,
        "warning",
        since,
        lane.row if lane.beat_row < 0 else lane.beat_row,
        f"{lane.label} disappeared without LeaveGroup ({lane.gone}) and has been silent for {ago(at - since)}: "
        "until its session expires, nobody reads its partitions",
        "check whether it was killed or crashed; session.timeout.ms limits the wait (a static member gets its "
        "partitions back when it restarts)",
        blamed=(lane.key,),
    )


def looping(group: GroupHistory, lane: Lane, at: int) -> Iterator[Stall]:
    """A member that joins again and again and is never given an assignment."""
    since, row = lane.unsynced_since
    if lane.unsynced < UNSYNCED or at - lane.last > SESSION:
        return
    yield Stall(
        StallKind.JOIN_LOOP,
        "error",
        since,
        row,
        f"{lane.label} has joined {lane.unsynced} times within {ago(lane.last - since)} without getting an assignment",
        "check its JoinGroup and SyncGroup responses: the client may be unable to read them, or they may all be "
        "REBALANCE_IN_PROGRESS because another member keeps joining",
        (lane.key,),
        (lane.key,),
        times=lane.unsynced,
    )


def refusal(group: GroupHistory, lane: Lane, streak: Streak) -> Iterator[Stall]:
    """What a member was refused, if it is worth telling."""
    told = explanations.meaning(streak.error)
    commit = streak.kind is EventKind.COMMIT
    if streak.count < (1 if commit else told.times):
        return
    kind = (
        StallKind.FENCED
        if streak.error in explanations.FENCED
        else StallKind.COMMIT_REFUSED
        if commit
        else StallKind.REFUSED
    )
    times = f" {streak.count} times within {ago(streak.last - streak.first)}" if streak.count > 1 else ""
    text = f"the {streak.kind} of {lane.label} was answered with {safe(streak.error)}{times}"
    text += f": {told.why}" if told.why else ""
    text += "; the offsets are not stored, so these records will be read again" if commit else ""
    severity = "error" if kind is StallKind.FENCED or streak.count >= max(3, told.times) else "warning"
    yield Stall(
        kind, severity, streak.first, streak.row, text, told.look, (lane.key,), (lane.key,), error=streak.error,
        times=streak.count,
    )  # fmt: skip


def unanswered(group: GroupHistory, lane: Lane, at: int) -> Iterator[Stall]:
    """Requests of a member that nobody answers, but for those that have to wait."""
    late = [
        event
        for event in lane.waiting.values()
        if at - event.at > PATIENCE
        and (event.kind not in (EventKind.JOIN, EventKind.SYNC) or group.protocol is not Protocol.CLASSIC)
    ]
    if not late or lane.gone:
        return
    first = late[0]
    yield Stall(
        StallKind.UNANSWERED,
        severe(at - first.at),
        first.at,
        first.row,
        f"{lane.label} has waited {ago(at - first.at)} for the response to its {first.kind} request"
        + (f", and for {len(late) - 1} more" if len(late) > 1 else ""),
        "check whether the coordinator answers others, and whether something in between drops packets",
        (lane.key,),
        times=len(late),
    )
