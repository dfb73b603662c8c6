"""Stalls of a single member: when they began, why, and what to check.

Each function yields the stalls of a member at time `at` (ns). For a stall that ends, it is called just before the end,
so that ongoing and ended stalls have the same text.
"""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.groups import explanations
from dissectors.groups.model import (
    SECOND,
    CauseKind,
    EventKind,
    GroupHistory,
    Lane,
    MembershipState,
    Protocol,
    Stall,
    StallKind,
    Streak,
    TopicPartition,
)
from dissectors.groups.stalls.wording import elapsed, severity_after
from dissectors.plain_text import printable_text
from dissectors.schemas.codes import Error

#: Heartbeats are missing after this many usual intervals without one, but not before this time (ns): twice the defaults
#: of heartbeat.interval.ms and group.consumer.heartbeat.interval.ms, because the first heartbeats come in bursts.
MISSED_HEARTBEATS = 3
MIN_SILENCE = 6 * SECOND
MIN_SILENCE_OF_EPOCHS = 10 * SECOND
#: A member that disappeared less than this time ago (ns) may be reconnecting.
MIN_LOSS = 3 * SECOND
#: After the coordinator has moved, members come back one by one within this time (ns), some with another id.
MAX_RETURN = 15 * SECOND
#: Kafka's default session timeout (ns). A member that disappeared earlier is reported only if others are active.
SESSION_TIMEOUT = 45 * SECOND

#: A session lasts at least this long (ns): the default of group.min.session.timeout.ms minus a second.
MIN_SESSION = 5 * SECOND

#: A response is late after this time (ns), except for JoinGroup and SyncGroup.
MAX_LATENCY = 5 * SECOND

MIN_REJOIN_SIGNALS = 3  # consecutive REBALANCE_IN_PROGRESS errors,
MIN_REJOIN_DURATION = 3 * SECOND  # over at least this time (ns)
MAX_CAUSED = 5  # consecutive rebalances caused by one process,
MAX_DISTURBANCE_AGE = 15 * SECOND  # the last of them at most this long ago (ns)
_CAUSE_PHRASES = {
    CauseKind.LEAVE: "left",
    CauseKind.JOIN: "joined as a new member",
    CauseKind.COORDINATOR: "let its session expire",
    CauseKind.REJOIN: "rejoined by itself",
}
MAX_UNSYNCED = 4  # consecutive joins without an assignment
_MAX_NAMED = 3

#: The setting after which a silent member is removed, in protocols where it is not the client's.
_BROKER_SESSION_SETTINGS = {
    Protocol.CONSUMER: "the broker's group.consumer.session.timeout.ms",
    Protocol.SHARE: "the broker's group.share.session.timeout.ms",
    Protocol.STREAMS: "the broker's group.streams.session.timeout.ms",
}
_CLIENT_SESSION_SETTING = "session.timeout.ms"

_STATIC_MEMBER_HINT = " (a static member gets its partitions back when it restarts)"
#: What a hint about the wait for a lost member adds.
_WAIT_HINTS = {
    Protocol.SHARE: ", and share.record.lock.duration.ms how long it keeps records",
    Protocol.STREAMS: "",
}


#: Errors that no join with epoch 0 can have.
_FENCED_JOINS = (Error.FENCED_MEMBER_EPOCH.name, Error.UNKNOWN_MEMBER_ID.name)


def is_healthy(lane: Lane, at: int) -> bool:
    """Whether none of the functions below would find a stall. This check is cheaper, and most members are healthy."""
    return (
        not lane.in_flight
        and not lane.refusals
        and lane.rejoin_signals is None
        and lane.unsynced_joins < MAX_UNSYNCED
        and lane.disturbance is None
        and (
            at - lane.heartbeat_at <= MIN_SILENCE
            if lane.state is MembershipState.MEMBER
            else lane.state is not MembershipState.LOST
        )
    )


def not_rejoining_stalls(group: GroupHistory, lane: Lane, at: int) -> Iterator[Stall]:
    """Yield the stall of a member that keeps getting REBALANCE_IN_PROGRESS but only sends heartbeats."""
    signals = lane.rejoin_signals
    if (
        signals is None
        or signals.count < MIN_REJOIN_SIGNALS
        or signals.last - signals.first < MIN_REJOIN_DURATION
        or lane.state is not MembershipState.MEMBER
    ):
        return
    yield Stall(
        StallKind.NOT_REJOINING,
        severity_after(at - signals.first),
        signals.first,
        signals.row,
        f"{lane.label} got REBALANCE_IN_PROGRESS {signals.count} times within {elapsed(signals.last - signals.first)}, "
        "but has not rejoined: it sends heartbeats, but its application does not poll",
        "check what the application does between two polls; after max.poll.interval.ms the group continues without it",
        blamed=(lane.key,),
        error=signals.error,
        times=signals.count,
    )


def exceeded_silence_limit(group: GroupHistory, lane: Lane, at: int) -> int | None:
    """Return the limit (ns) on a member's silence if the member has exceeded it; otherwise, or if unknown, None."""
    interval = lane.interval
    if lane.state is not MembershipState.MEMBER or lane.end_reason or not interval or not lane.heartbeat_at:
        return None
    minimum = MIN_SILENCE if group.protocol is Protocol.CLASSIC else MIN_SILENCE_OF_EPOCHS
    limit = max(MISSED_HEARTBEATS * interval, minimum)
    return limit if at - lane.heartbeat_at > limit else None


def _session_setting(group: GroupHistory) -> str:
    return _BROKER_SESSION_SETTINGS.get(group.protocol, _CLIENT_SESSION_SETTING)


def silence_stalls(group: GroupHistory, lane: Lane, at: int) -> Iterator[Stall]:
    """Yield the stall of a member whose heartbeats stopped."""
    if exceeded_silence_limit(group, lane, at) is None or any(
        request.at >= lane.heartbeat_at for request in lane.in_flight.values()
    ):
        return  # a member that waits for a response is not silent: see `unanswered_stalls`
    unit = "tasks" if group.protocol is Protocol.STREAMS else "partitions"
    yield Stall(
        StallKind.SILENT,
        severity_after(at - lane.heartbeat_at),
        lane.heartbeat_at,
        lane.heartbeat_row,
        f"{lane.label} has sent nothing for {elapsed(at - lane.heartbeat_at)}, after a heartbeat every "
        f"{elapsed(lane.interval)}; its connection is open, so its process is blocked",
        "find out what blocks the process (a debugger, garbage collection, a suspended container, no CPU); after "
        f"{_session_setting(group)}, other members get its {unit}",
        blamed=(lane.key,),
    )


def lost_stalls(group: GroupHistory, lane: Lane, at: int) -> Iterator[Stall]:
    """Yield the stall of a member that disappeared without LeaveGroup."""
    since = lane.since
    if lane.state is not MembershipState.LOST or lane.is_abandoned or at - since < MIN_LOSS:
        return
    if not lane.end_reason:  # the member sends requests again
        return
    others_active = any(
        member.state is MembershipState.MEMBER and member.heartbeat_at > since for member in group.lanes.values()
    )
    if not others_active and at - since > SESSION_TIMEOUT:
        return
    if group.moved_at > since - MAX_RETURN and not MAX_RETURN < at - max(group.moved_at, since) < SESSION_TIMEOUT:
        return
    unread = unread_partitions(group, lane)
    # a client harms nobody if it was alone or if other members read its partitions, as they often do in a share group
    is_harmless = not others_active or unread == [] or (unread is None and group.protocol is Protocol.SHARE)
    yield Stall(
        StallKind.LOST,
        "info" if is_harmless else "warning",
        since,
        lane.row if lane.heartbeat_row < 0 else lane.heartbeat_row,
        f"{lane.label} disappeared without LeaveGroup ({lane.end_reason}) and has been silent for "
        f"{elapsed(at - since)}: {_partitions_text(group, unread)}",
        f"check whether it was killed or crashed; {_session_setting(group)} limits the wait"
        + _WAIT_HINTS.get(group.protocol, _STATIC_MEMBER_HINT),
        blamed=(lane.key,),
    )


def unread_partitions(group: GroupHistory, lost_lane: Lane) -> list[TopicPartition] | None:
    """Return the partitions of a lost member that are not assigned to others; None if its assignment is unknown."""
    if lost_lane.assigned is None:
        return None
    read_partitions = {
        partition
        for lane in group.lanes.values()
        if lane.state is MembershipState.MEMBER and lane.assigned
        for partition in lane.assigned
    }
    return sorted(lost_lane.assigned - read_partitions)


def _partitions_text(group: GroupHistory, unread: list[TopicPartition] | None) -> str:
    """Return the end of a sentence that says what happens to the partitions of a lost member."""
    if unread is None:
        if group.protocol is Protocol.SHARE:
            return "its assignment was not observed, so it is unknown whether other members have its partitions"
        if group.protocol is Protocol.STREAMS:
            return "until its session expires, nobody runs the tasks assigned to it"
        return "until its session expires, nobody reads the partitions assigned to it"
    if unread:
        if group.protocol is Protocol.STREAMS:
            tasks = ", ".join(f"{printable_text(subtopology)}_{number}" for subtopology, number in unread[:_MAX_NAMED])
            more_text = f" and {len(unread) - _MAX_NAMED} more tasks" if len(unread) > _MAX_NAMED else ""
            return f"until its session expires, nobody runs task {tasks}{more_text}, which no other member has"
        partitions = [
            f"{printable_text(group.topic_names.get(topic, topic))}[{index}]" for topic, index in unread[:_MAX_NAMED]
        ]
        more_text = f" and {len(unread) - _MAX_NAMED} more" if len(unread) > _MAX_NAMED else ""
        names = ", ".join(partitions) + more_text
        return f"until its session expires, nobody reads {names}, which no other member is assigned"
    if group.protocol is Protocol.SHARE:
        return (
            "other members are assigned all of its partitions and read on; records that it had acquired are delivered "
            "again when their locks run out"
        )
    unit = "tasks" if group.protocol is Protocol.STREAMS else "partitions"
    return f"other members are assigned all of its {unit}"


def join_loop_stalls(group: GroupHistory, lane: Lane, at: int) -> Iterator[Stall]:
    """Yield the stall of a member that joins repeatedly but never gets an assignment."""
    since, row = lane.unsynced_since
    if lane.unsynced_joins < MAX_UNSYNCED or at - lane.last > SESSION_TIMEOUT:
        return
    yield Stall(
        StallKind.JOIN_LOOP,
        "error",
        since,
        row,
        f"{lane.label} has joined {lane.unsynced_joins} times within {elapsed(lane.last - since)} without getting an "
        "assignment",
        "check its JoinGroup and SyncGroup responses: the client may be unable to read them, or they may all be "
        "REBALANCE_IN_PROGRESS because another member keeps joining",
        (lane.key,),
        (lane.key,),
        times=lane.unsynced_joins,
    )


def disturbance_stalls(lane: Lane, at: int) -> Iterator[Stall]:
    """Yield the stall of a process that causes one rebalance after another."""
    disturbance = lane.disturbance
    if (
        disturbance is None
        or disturbance.count < MAX_CAUSED
        or at - disturbance.last > MAX_DISTURBANCE_AGE
        or lane.unsynced_joins >= MAX_UNSYNCED
    ):
        return  # a member that rejoins because it gets no assignment is in `join_loop_stalls`
    causes = ", ".join(
        f"{_CAUSE_PHRASES[kind]} {times} time{'s' * (times != 1)}" for kind, times in disturbance.kinds.items()
    )
    yield Stall(
        StallKind.DISTURBED,
        "warning",
        disturbance.first,
        disturbance.row,
        f"{lane.label} caused {disturbance.count} rebalances within {elapsed(disturbance.last - disturbance.first)}: "
        f"it {causes}",
        "check that process: what it does between two polls, why it subscribes again or restarts, and its log; at each "
        "rebalance, all members of the group stop",
        blamed=(lane.key,),
        times=disturbance.count,
    )


def refusal_stalls(group: GroupHistory, lane: Lane, streak: Streak) -> Iterator[Stall]:
    """Yield the stall of a member whose consecutive refusals have reached the threshold of the error."""
    explanation = _explain_refusal(group, lane, streak)
    is_commit = streak.kind is EventKind.COMMIT
    needs_threshold = not is_commit or streak.error in explanations.TRANSIENT_COMMIT_ERRORS
    if needs_threshold and (
        streak.count < explanation.threshold or streak.last - streak.first < explanation.grace_period
    ):
        return
    kind = (
        StallKind.FENCED
        if streak.error in explanations.FENCING_ERRORS
        else StallKind.COMMIT_REFUSED
        if is_commit
        else StallKind.REFUSED
    )
    times = f" {streak.count} times within {elapsed(streak.last - streak.first)}" if streak.count > 1 else ""
    text = f"the {streak.api} of {lane.label} got {printable_text(streak.error)}{times}"
    text += f": {explanation.reason}" if explanation.reason else ""
    if streak.api == "ShareAcknowledge":
        text += "; the acknowledgements are not stored, so these records will be delivered again"
    elif is_commit:
        text += "; the offsets are not stored" + (", so these records will be read again" if lane.member_id else "")
    severity = "error" if kind is StallKind.FENCED or streak.count >= max(3, explanation.threshold) else "warning"
    yield Stall(
        kind, severity, streak.first, streak.row, text, explanation.hint, (lane.key,), (lane.key,), error=streak.error,
        times=streak.count,
    )  # fmt: skip


def _explain_refusal(group: GroupHistory, lane: Lane, streak: Streak) -> explanations.ErrorExplanation:
    """Return what consecutive refusals mean for this member."""
    if streak.kind is EventKind.JOIN and streak.error in _FENCED_JOINS and group.protocol is not Protocol.CLASSIC:
        return explanations.FENCED_JOIN
    if streak.contradicts:
        is_stale = streak.error in explanations.STALE_GENERATION_ERRORS
        return explanations.CONTRADICTED_GENERATION if is_stale else explanations.CONTRADICTED_MEMBER
    if streak.error == Error.UNKNOWN_MEMBER_ID.name:
        if streak.kind is EventKind.COMMIT and not lane.member_id:
            return explanations.COMMIT_WITHOUT_MEMBER
        if streak.kind is EventKind.LEAVE and _was_just_accepted(group, lane, streak):
            return explanations.refused_leave_of_active_member(elapsed(streak.first - lane.heartbeat_at))
    return explanations.explanation(streak.api, streak.error)


def _was_just_accepted(group: GroupHistory, lane: Lane, streak: Streak) -> bool:
    """Whether a member that is now unknown was accepted so recently that its session cannot have expired."""
    ended_at = lane.memberships[-1][1] if lane.memberships else None
    return (
        ended_at is not None
        and lane.heartbeat_at <= ended_at
        and streak.first - lane.heartbeat_at < MIN_SESSION
        and streak.count == len(lane.refusals) == 1
        and group.rebalance is None
    )


def unanswered_stalls(group: GroupHistory, lane: Lane, at: int) -> Iterator[Stall]:
    """Yield the stall of a member whose responses are late, except for requests that normally block."""
    late_requests = [
        event
        for event in lane.in_flight.values()
        if at - event.at > MAX_LATENCY
        and (event.kind not in (EventKind.JOIN, EventKind.SYNC) or group.protocol is not Protocol.CLASSIC)
    ]
    if not late_requests or lane.end_reason:
        return
    first = late_requests[0]
    yield Stall(
        StallKind.UNANSWERED,
        severity_after(at - first.at),
        first.at,
        first.row,
        f"{lane.label} has waited {elapsed(at - first.at)} for the response to its {first.api} request"
        + (f", and for {len(late_requests) - 1} more" if len(late_requests) > 1 else ""),
        "check whether the coordinator answers others, and whether something in between drops packets",
        (lane.key,),
        times=len(late_requests),
    )
