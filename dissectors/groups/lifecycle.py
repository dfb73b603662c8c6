"""Apply requests and responses to a group: members join, get their assignments, are refused, and leave."""

from __future__ import annotations

from dissectors.bounded import MAX_NAME_LENGTH
from dissectors.groups import causes, explanations, rebalances
from dissectors.groups.assignments import on_assignment
from dissectors.groups.facts import GroupFrame, GroupResponse
from dissectors.groups.model import (
    Event,
    EventKind,
    GroupHistory,
    Lane,
    MembershipState,
    PendingId,
    Protocol,
    RebalanceInProgress,
    Streak,
)
from dissectors.groups.stalls import members, waits
from dissectors.groups.stalls.endings import end_member_stalls, end_stalls

MAX_STREAKS = 20  # the most different errors that are counted per lane


def on_request(group: GroupHistory, lane: Lane, event: Event, frame: GroupFrame) -> None:
    """Apply a request of a member."""
    kind, at = event.kind, event.at
    if kind is EventKind.HEARTBEAT or kind is EventKind.SYNC or kind is EventKind.JOIN:
        was_silent = (
            at - lane.heartbeat_at > members.MIN_SILENCE and members.exceeded_silence_limit(group, lane, at) is not None
        )
        if was_silent:
            end_stalls(group, members.silence_stalls(group, lane, at), at)
        elif lane.state is MembershipState.LOST:
            end_stalls(group, members.lost_stalls(group, lane, at), at)
        if kind is EventKind.HEARTBEAT:
            lane.record_heartbeat(at, event.row, was_silent)
            if lane.state is MembershipState.LOST:
                lane.set_state(MembershipState.MEMBER, at)
        elif kind is EventKind.JOIN:
            rebalances.on_join_request(group, lane, event)
        else:
            if lane.state is MembershipState.JOINED and at - lane.since > waits.MAX_SYNC_WAIT_NS:
                end_stalls(group, waits.sync_wait_stalls(group, at), at)
            lane.request = event
            lane.set_state(MembershipState.SYNCING, at)
            if frame.size - len(lane.client_id) - len(group.id) - 2 * len(lane.member_id) > rebalances.LEADER_MIN_BYTES:
                group.leader = lane.key
    elif kind is EventKind.LEAVE:
        lagging_stalls = list(waits.lagging_epoch_stalls(group, at))
        end_member_stalls(group, lane, at)
        lane.set_state(MembershipState.LEFT, at)
        causes.on_leave(group, lane)
        if group.current_members():
            rebalances.end_if_reconciled(group, lagging_stalls, at)
        else:
            group.rebalance = None


def on_response(group: GroupHistory, lane: Lane, event: Event, frame: GroupResponse, at: int) -> None:
    """Apply the response to a request of a member. `event` already has its error and generation."""
    kind, error = event.kind, event.error
    if at - event.at > members.MAX_LATENCY:
        end_stalls(group, members.unanswered_stalls(group, lane, at), at)
        lane.heartbeat_at = (
            lane.heartbeat_at and at
        )  # a client waits for the response before it sends the next heartbeat
    lane.in_flight.pop(event.row, None)
    if error:
        _on_error(group, lane, event, at)
        return
    if lane.refusals:
        _end_refusals(group, lane, kind, at)
    if kind is not EventKind.COORDINATOR:
        _record_coordinator(group, frame.server[:MAX_NAME_LENGTH], at, event.row)
    if group.coordinator_errors is not None and (
        kind is not EventKind.COORDINATOR or group.coordinator_errors.kind is EventKind.COORDINATOR
    ):
        end_stalls(group, waits.no_coordinator_stalls(group, at), at)
        group.coordinator_errors = None
    if (frame.topics or frame.tasks) and event.api in explanations.EPOCH_APIS and kind is not EventKind.LEAVE:
        on_assignment(group, lane, frame, at)
    if kind is EventKind.HEARTBEAT:
        if lane.state in (MembershipState.SEEN, MembershipState.LOST, MembershipState.OUT):
            lane.set_state(MembershipState.MEMBER, at)
        if group.protocol is Protocol.CLASSIC:
            lane.rejoin_signals = None
        if frame.generation_id is not None and frame.generation_id != lane.generation:
            rebalances.on_generation(group, lane, frame.generation_id, at, event.row)
    elif kind is EventKind.JOIN:
        rebalances.on_join_response(group, lane, event, frame, at)
    elif kind is EventKind.SYNC:
        rebalances.on_sync_response(group, lane, frame, at, event.row)
    elif kind is EventKind.COMMIT:
        lane.commits += 1
        group.commits += 1
        lane.commit_at = group.commit_at = at


def _record_coordinator(group: GroupHistory, server: str, at: int, row: int) -> None:
    """Record that a broker answered as coordinator. Report a change only after an error or a closed connection."""
    if server != group.coordinator:
        if group.coordinator and (group.coordinator_errors is not None or group.closed_at >= group.coordinator_seen_at):
            end_stalls(group, [waits.coordinator_move_stall(group, server, at, row)], at)
        if group.coordinator:
            group.moved_at = at
        group.coordinator = server
    group.coordinator_seen_at = at


def _on_error(group: GroupHistory, lane: Lane, event: Event, at: int) -> None:
    kind, error = event.kind, event.error
    if error in explanations.SHARE_SESSION_ERRORS:
        return
    if kind is EventKind.JOIN:
        causes.on_refused_join(group, event.row)
    elif kind is EventKind.HEARTBEAT or kind is EventKind.SYNC:
        causes.on_error(group, error)
    if error == "MEMBER_ID_REQUIRED":
        lane.set_state(MembershipState.SEEN, at)
        group.pending_ids[lane.key] = PendingId(at, event.row, lane.label)
        rebalances.discard_rebalance(group)
        return
    if error == explanations.REJOIN and kind is not EventKind.COMMIT:
        _on_rejoin_signal(group, lane, event, at)
        return
    if error in explanations.COORDINATOR_ERRORS:
        group.coordinator_errors = _extend_streak(group.coordinator_errors, event, at)
    else:
        if len(lane.refusals) < MAX_STREAKS or error in lane.refusals:
            previous = lane.refusals.get(error)
            streak = lane.refusals[error] = _extend_streak(previous, event, at)
            streak.contradicts = (previous is None or previous.contradicts) and _is_contradicted(group, lane, event)
        if error in explanations.REMOVAL_ERRORS and kind is not EventKind.COMMIT:
            end_member_stalls(group, lane, at)
            lane.set_state(MembershipState.OUT, at)
        if lane.end_reason:
            _end_all_refusals(group, lane)
    if kind is EventKind.JOIN:
        lane.set_state(MembershipState.OUT if error in explanations.REMOVAL_ERRORS else MembershipState.SEEN, at)
        rebalances.discard_rebalance(group)
    elif kind is EventKind.SYNC and lane.state is MembershipState.SYNCING:
        lane.set_state(MembershipState.JOINED, at)


def _is_contradicted(group: GroupHistory, lane: Lane, event: Event) -> bool:
    """Whether the coordinator refuses the newest generation, or a member that it has just accepted."""
    if lane.state not in (MembershipState.JOINED, MembershipState.SYNCING, MembershipState.MEMBER):
        return False
    if event.error in explanations.STALE_GENERATION_ERRORS:
        newest = group.generation if group.protocol is Protocol.CLASSIC else lane.generation
        return event.generation == lane.generation == newest >= 0
    was_just_accepted = event.at - lane.since < members.MIN_SESSION
    return event.error == explanations.UNKNOWN_MEMBER and was_just_accepted and lane.rejoin_signals is None


def _on_rejoin_signal(group: GroupHistory, lane: Lane, event: Event, at: int) -> None:
    """Record that a member got REBALANCE_IN_PROGRESS and must rejoin."""
    lane.rejoin_signals = _extend_streak(lane.rejoin_signals, event, at)
    if lane.state not in (MembershipState.JOINING, MembershipState.LEFT):
        lane.set_state(MembershipState.MEMBER, at)
    if group.rebalance is None:
        group.rebalance = RebalanceInProgress(at, group.generation)


def _extend_streak(streak: Streak | None, event: Event, at: int) -> Streak:
    if streak is None or streak.error != event.error:
        return Streak(event.error, event.kind, at, at, event.row, api=event.api)
    streak.count += 1
    streak.last, streak.kind, streak.api = at, event.kind, event.api
    return streak


def _end_refusals(group: GroupHistory, lane: Lane, kind: EventKind, at: int) -> None:
    """End the refusals of the kind of request that succeeded, or all refusals after a join."""
    for error, streak in list(lane.refusals.items()):
        if streak.kind is kind or kind is EventKind.JOIN:
            del lane.refusals[error]
            end_stalls(group, members.refusal_stalls(group, lane, streak), at)


def on_gap(group: GroupHistory, lane: Lane, at: int) -> None:
    """Apply a gap: bytes of a member's connection were not inspected, so responses and heartbeats may be missing."""
    lane.in_flight.clear()
    lane.heartbeat_gaps.clear()
    lane.rejoin_signals = None
    lane.heartbeat_at = at
    if lane.state in (MembershipState.JOINING, MembershipState.JOINED, MembershipState.SYNCING):
        lane.set_state(MembershipState.SEEN, at)
        group.rebalance = None


def on_close(group: GroupHistory, lane: Lane, by: str | None, at: int) -> None:
    """Apply the end of a member's connection. `by` is None if the connection is just no longer observed."""
    if by in ("client", "server"):
        _mark_lost(group, lane, at)
    group.closed_at = at
    lane.end_reason = f"its connection was closed by the {by}" if by else "its connection is no longer observed"
    lane.in_flight.clear()
    _end_all_refusals(group, lane)


def on_replacement(group: GroupHistory, lane: Lane, at: int) -> None:
    """Mark a member as lost because its client joined with a new member id and will not use the old one again."""
    lane.unsynced_joins = 0  # the new member continues the count
    lane.is_abandoned = bool(lane.refusals or lane.rejoin_signals)
    _mark_lost(group, lane, at)
    lane.end_reason = "its client rejoined with another member id"
    _end_all_refusals(group, lane)


def _mark_lost(group: GroupHistory, lane: Lane, at: int) -> None:
    if lane.state in (MembershipState.JOINING, MembershipState.JOINED, MembershipState.SYNCING, MembershipState.MEMBER):
        end_member_stalls(group, lane, at)
        lane.set_state(MembershipState.LOST, at)


def _end_all_refusals(group: GroupHistory, lane: Lane) -> None:
    for streak in lane.refusals.values():
        end_stalls(group, members.refusal_stalls(group, lane, streak), streak.last)
    lane.refusals.clear()
