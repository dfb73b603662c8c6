"""Rebalances: transitions of a group from one generation or epoch to the next."""

from __future__ import annotations

from collections.abc import Iterable

from dissectors.groups import causes
from dissectors.groups.facts import GroupResponse
from dissectors.groups.model import (
    SECOND,
    Boundary,
    Event,
    GroupHistory,
    Lane,
    MembershipState,
    Protocol,
    RebalanceInProgress,
    Stall,
)
from dissectors.groups.stalls import members, waits
from dissectors.groups.stalls.endings import end_member_stalls, end_stalls

#: The leader's SyncGroup has all assignments, and its JoinGroup response all subscriptions. A frame with more bytes
#: than this, not counting names, is the leader's. With several clients, leaders had at least 52, others at most 7.
LEADER_MIN_BYTES = 30


def on_join_request(group: GroupHistory, lane: Lane, event: Event) -> None:
    """Apply a JoinGroup request, or a heartbeat with epoch 0."""
    at = event.at
    end_stalls(group, members.not_rejoining_stalls(group, lane, at), at)
    if _is_overdue(group, at) and not 0 <= at - group.join_stall_at < SECOND:
        group.join_stall = next(
            (stall for stall in waits.join_wait_stalls(group, at) if lane.key in stall.blamed), group.join_stall
        )
        group.join_stall_at = at
    if lane.state is MembershipState.JOINED and at - lane.since > waits.MAX_SYNC_WAIT_NS:
        end_stalls(group, waits.sync_wait_stalls(group, at), at)
    lane.rejoin_signals = None
    causes.on_join(group, lane, event.row)
    lane.heartbeat_at = 0  # no heartbeats are due until it has its assignment
    lane.request = event
    lane.set_state(MembershipState.JOINING, at)
    if lane.member_id:
        group.pending_ids.pop(lane.member_id, None)
    if group.rebalance is None and group.protocol is Protocol.CLASSIC:
        group.rebalance = RebalanceInProgress(at, group.generation)


def on_join_response(group: GroupHistory, lane: Lane, event: Event, frame: GroupResponse, at: int) -> None:
    """Apply the response that gives a member its generation (JoinGroup) or epoch (first heartbeat)."""
    generation = -1 if frame.generation_id is None else frame.generation_id
    if group.protocol is not Protocol.CLASSIC:
        lane.set_state(MembershipState.MEMBER, at)
        lane.heartbeat_at = at
        on_generation(group, lane, generation, at, event.row)
        return
    if generation != group.generation or generation < 0:
        if _is_overdue(group, at):
            end_stalls(group, (_restore_blamed(group, stall) for stall in waits.join_wait_stalls(group, at)), at)
        group.join_stall = None
    elif at - group.generation_at > SECOND and at - event.at > waits.MAX_JOIN_WAIT:
        end_stalls(group, (stall for stall in waits.join_wait_stalls(group, at) if lane.key in stall.waiting), at)
    on_generation(group, lane, generation, at, event.row)
    if not lane.unsynced_joins:
        lane.unsynced_since = event.at, event.row
    lane.unsynced_joins += 1
    lane.set_state(MembershipState.JOINED, at)
    if frame.size - 3 * len(lane.member_id) > LEADER_MIN_BYTES:
        group.leader = lane.key


def _is_overdue(group: GroupHistory, at: int) -> bool:
    """Whether a member may have waited too long for JoinGroup. This is cheaper than searching a large group."""
    return group.rebalance is not None and at - group.rebalance.at > waits.MAX_JOIN_WAIT


def on_sync_response(group: GroupHistory, lane: Lane, frame: GroupResponse, at: int, row: int) -> None:
    """Apply the response that gives a member its assignment."""
    if lane.state is MembershipState.SYNCING and at - group.generation_at > waits.MAX_SYNC_WAIT_NS:
        end_stalls(group, waits.sync_wait_stalls(group, at), at)
    if lane.unsynced_joins:
        end_stalls(group, members.join_loop_stalls(group, lane, at), at)
    lane.unsynced_joins = 0
    lane.rejoin_signals = None
    lane.heartbeat_at, lane.heartbeat_row = at, row
    lane.set_state(MembershipState.MEMBER, at)
    if frame.generation_id is not None and frame.generation_id > lane.generation:
        on_generation(group, lane, frame.generation_id, at, row)
    if group.rebalance is not None and (
        group.rebalance.generation != group.generation or not group.lanes_in_state(MembershipState.JOINING)
    ):
        end_rebalance(group, at)
        group.rebalance = _next_rebalance(group)


def _next_rebalance(group: GroupHistory) -> RebalanceInProgress | None:
    """Return the rebalance of members that joined after the first assignments were sent; None if there are none."""
    join_times = [lane.request.at for lane in group.lanes_in_state(MembershipState.JOINING) if lane.request is not None]
    return RebalanceInProgress(min(join_times), group.generation) if join_times else None


def _restore_blamed(group: GroupHistory, stall: Stall) -> Stall:
    """Return the stall, with the member that it blamed before that member joined."""
    join_stall = group.join_stall
    return join_stall if join_stall is not None and join_stall.row == stall.row and not stall.blamed else stall


def on_generation(group: GroupHistory, lane: Lane, generation: int, at: int, row: int) -> None:
    """Record a member's generation. If it is new, move the group to it and remove absent members."""
    lagging_stalls = list(waits.lagging_epoch_stalls(group, at))
    if generation < 0:
        lane.generation = generation
        return
    # A coordinator that has lost the group restarts at generation 1.
    if generation > group.generation or (
        generation < group.generation
        and all(member.generation != group.generation for member in group.lanes_in_state(MembershipState.MEMBER))
    ):
        end_stalls(group, lagging_stalls, at)
        previous = group.generation
        group.generation, group.generation_at = generation, at
        expired = _remove_absent_members(group, lane, at)
        if group.protocol is Protocol.CLASSIC:
            cause = causes.cause_of(group, lane, expired, at)
            group.leader = ""
        else:
            cause = causes.cause_of_epoch(group, lane, expired)
            group.rebalance = group.rebalance or RebalanceInProgress(at, previous)
        group.boundaries.append(Boundary(at, generation, row, cause))
    lane.generation = generation
    end_if_reconciled(group, lagging_stalls, at)


def _remove_absent_members(group: GroupHistory, lane: Lane, at: int) -> list[Lane]:
    """Remove and return the members that are not in the new generation, which `lane` is the first to reach.

    In the classic protocol, these are all members that have not joined. In the others, they are members that
    disappeared so long ago that the new epoch is probably due to their expired sessions.
    """
    removed = []
    expired = None if group.protocol is Protocol.CLASSIC else _find_expired_member(group, lane)
    for member in group.current_members():
        if group.protocol is Protocol.CLASSIC:
            is_absent = member is not lane and member.state is not MembershipState.JOINING
        else:
            is_absent = member.state is MembershipState.LOST and (
                member is expired or at - member.since > members.SESSION_TIMEOUT
            )
        if is_absent:
            end_member_stalls(group, member, at)
            member.set_state(MembershipState.OUT, at)
            removed.append(member)
    return removed


def _find_expired_member(group: GroupHistory, lane: Lane) -> Lane | None:
    """Return the lost member whose session probably expired, if no visible member caused the epoch of `lane`."""
    if group.leaver is not None or lane.generation <= 0:
        return None
    lost_members = [member for member in group.lanes_in_state(MembershipState.LOST) if member.end_reason]
    return min(lost_members, key=_heartbeat_at, default=None)


def _heartbeat_at(lane: Lane) -> int:
    return lane.heartbeat_at


def end_if_reconciled(group: GroupHistory, lagging_stalls: Iterable[Stall], at: int) -> None:
    """End a rebalance of the new protocols (KIP-848) once all members are at the group's epoch."""
    if group.protocol is Protocol.CLASSIC or group.rebalance is None:
        return
    if all(lane.generation == group.generation for lane in group.lanes_in_state(MembershipState.MEMBER)):
        end_stalls(group, lagging_stalls, at)
        end_rebalance(group, at)


def end_rebalance(group: GroupHistory, at: int) -> None:
    """End the rebalance in progress, and count it if the generation has changed."""
    rebalance = group.rebalance
    group.rebalance = None
    if rebalance is not None and (rebalance.generation != group.generation or group.generation < 0):
        group.rebalances += 1
        group.longest_rebalance = max(group.longest_rebalance, at - rebalance.at)


def discard_rebalance(group: GroupHistory) -> None:
    """Discard a rebalance if the join that began it was refused and no other member is part of it."""
    rebalance = group.rebalance
    has_participants = any(
        lane.state is MembershipState.JOINING or lane.rejoin_signals for lane in group.lanes.values()
    )
    if rebalance is not None and rebalance.generation == group.generation and not has_participants:
        group.rebalance = None
