"""Rebalances: how a group goes from one generation, or epoch, to the next."""

from __future__ import annotations

from collections.abc import Iterable

from kproxy.groups.model import SECOND, Begun, Boundary, Event, GroupHistory, Lane, Protocol, Stall, Standing
from kproxy.groups.stalls import members, waits
from kproxy.groups.stalls.endings import goes, over
from kproxy.trace.lines import ResponseLine

#: The leader's SyncGroup holds all assignments, the answer to its JoinGroup all subscriptions: what is left of their
#: sizes without the names in them. Over clients of all kinds 52 bytes at least, and 7 at most of other members.
LEADERS_BYTES = 30


def joins(group: GroupHistory, lane: Lane, event: Event) -> None:
    """A member sends JoinGroup, or a heartbeat of epoch 0."""
    at = event.at
    over(group, members.not_rejoining(group, lane, at), at)
    if _overdue(group, at) and not 0 <= at - group.held_up_at < SECOND:
        group.held_up = next((each for each in waits.joins(group, at) if lane.key in each.blamed), group.held_up)
        group.held_up_at = at
    if lane.standing is Standing.JOINED and at - lane.since > waits.SYNC_PATIENCE:
        over(group, waits.syncs(group, at), at)
    lane.told = None
    lane.beat_at = 0  # until it has its assignment it need not send heartbeats
    lane.asked = event
    lane.stand(Standing.JOINING, at)
    if lane.member_id:
        group.given.pop(lane.member_id, None)
    if group.begun is None and group.protocol is Protocol.CLASSIC:
        group.begun = Begun(at, group.generation)


def joined(group: GroupHistory, lane: Lane, event: Event, line: ResponseLine, at: int) -> None:
    """JoinGroup was answered with a generation, or the first heartbeat with an epoch."""
    generation = -1 if line.generation_id is None else line.generation_id
    if group.protocol is not Protocol.CLASSIC:
        lane.stand(Standing.MEMBER, at)
        lane.beat_at = at
        reached(group, lane, generation, at, event.row)
        return
    if generation != group.generation or generation < 0:
        if _overdue(group, at):
            over(group, (_held_up(group, each) for each in waits.joins(group, at)), at)
        group.held_up = None
    elif at - group.generation_at > SECOND and at - event.at > waits.JOIN_PATIENCE:
        over(group, (each for each in waits.joins(group, at) if lane.key in each.who), at)
    reached(group, lane, generation, at, event.row)
    if not lane.unsynced:
        lane.unsynced_since = event.at, event.row
    lane.unsynced += 1
    lane.stand(Standing.JOINED, at)
    if line.size - 3 * len(lane.member_id) > LEADERS_BYTES:
        group.leader = lane.key


def _overdue(group: GroupHistory, at: int) -> bool:
    """Whether somebody may have waited for JoinGroup for long: to look is dear in a large group."""
    return group.begun is not None and at - group.begun.at > waits.JOIN_PATIENCE


def synced(group: GroupHistory, lane: Lane, line: ResponseLine, at: int, row: int) -> None:
    """A member has its assignment."""
    if lane.standing is Standing.SYNCING and at - group.generation_at > waits.SYNC_PATIENCE:
        over(group, waits.syncs(group, at), at)
    if lane.unsynced:
        over(group, members.looping(group, lane, at), at)
    lane.unsynced = 0
    lane.told = None
    lane.beat_at, lane.beat_row = at, row
    lane.stand(Standing.MEMBER, at)
    if line.generation_id is not None and line.generation_id > lane.generation:
        reached(group, lane, line.generation_id, at, row)
    if group.begun is not None and (
        group.begun.generation != group.generation or not group.in_standing(Standing.JOINING)
    ):
        rebalanced(group, at)
        group.begun = _next(group)


def _next(group: GroupHistory) -> Begun | None:
    """A member that joins behind the first assignments begins the next rebalance."""
    waiting = [lane.asked.at for lane in group.in_standing(Standing.JOINING) if lane.asked is not None]
    return Begun(min(waiting), group.generation) if waiting else None


def _held_up(group: GroupHistory, stall: Stall) -> Stall:
    """Of members that waited, whom they waited for, also if that has just joined."""
    held_up = group.held_up
    return held_up if held_up is not None and held_up.row == stall.row and not stall.blamed else stall


def reached(group: GroupHistory, lane: Lane, generation: int, at: int, row: int) -> None:
    """A member is at a generation; if the group has not been there, those that are not are out of it, or behind."""
    lagging = list(waits.lagging(group, at))
    lane.generation = generation
    if generation < 0:
        return
    # A coordinator that has lost the group begins at 1 again.
    if generation > group.generation or (
        generation < group.generation
        and all(each.generation != group.generation for each in group.in_standing(Standing.MEMBER))
    ):
        over(group, lagging, at)
        before = group.generation
        group.generation, group.generation_at = generation, at
        group.boundaries.append(Boundary(at, generation, row))
        if group.protocol is Protocol.CLASSIC:
            group.leader = ""
        else:
            group.begun = group.begun or Begun(at, before)
        _expel(group, lane, at)
    reconciled(group, lagging, at)


def _expel(group: GroupHistory, lane: Lane, at: int) -> None:
    """A new generation has begun with `lane`: of the classic protocol with nobody that has not joined.

    With epochs only those are out that are lost since so long that a new epoch is most likely their end.
    """
    for each in group.counted():
        if group.protocol is Protocol.CLASSIC:
            out = each is not lane and each.standing is not Standing.JOINING
        else:
            out = each.standing is Standing.LOST and at - each.since > members.SESSION
        if out:
            goes(group, each, at)
            each.stand(Standing.OUT, at)


def reconciled(group: GroupHistory, lagging: Iterable[Stall], at: int) -> None:
    """A rebalance of KIP-848 is over when all members are at the group's epoch."""
    if group.protocol is Protocol.CLASSIC or group.begun is None:
        return
    if all(each.generation == group.generation for each in group.in_standing(Standing.MEMBER)):
        over(group, lagging, at)
        rebalanced(group, at)


def rebalanced(group: GroupHistory, at: int) -> None:
    begun = group.begun
    group.begun = None
    if begun is not None and (begun.generation != group.generation or group.generation < 0):
        group.rebalances += 1
        group.longest_rebalance = max(group.longest_rebalance, at - begun.at)


def cancelled(group: GroupHistory) -> None:
    """A rebalance that nobody else has heard of was none, if the join that began it was refused."""
    begun = group.begun
    waiting = any(lane.standing is Standing.JOINING or lane.told for lane in group.lanes.values())
    if begun is not None and begun.generation == group.generation and not waiting:
        group.begun = None
