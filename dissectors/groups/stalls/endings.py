"""Record stalls that end, as they were just before their end."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dissectors.groups.model import SECOND, GroupHistory, Lane, MembershipState, Stall, StallKind
from dissectors.groups.stalls import members, waits


def end_stalls(group: GroupHistory, stalls: Iterable[Stall], until: int) -> None:
    """Record that stalls ended at `until` (ns)."""
    for stall in stalls:
        if any(
            ended_stall.row == stall.row and ended_stall.kind is stall.kind and ended_stall.codes == stall.codes
            for ended_stall in group.ended_stalls
        ):
            continue  # already recorded when it ended for another waiting member
        if len(group.ended_stalls) == group.ended_stalls.maxlen:
            group.stalls_evicted += 1
        group.ended_stalls.append(replace(stall, until=until))
        group.newly_ended += 1


def end_member_stalls(group: GroupHistory, lane: Lane, at: int) -> None:
    """End the stalls of a member that has left the group or was removed."""
    if lane.state is MembershipState.MEMBER:
        end_stalls(group, members.silence_stalls(group, lane, at), at)
        end_stalls(group, members.not_rejoining_stalls(group, lane, at), at)
    elif lane.state is MembershipState.LOST:
        end_stalls(group, members.lost_stalls(group, lane, at), at)
    elif at - lane.since > waits.MAX_SYNC_WAIT_NS and not _has_just_ended(group, at):
        if lane.state is MembershipState.JOINING:
            end_stalls(group, waits.join_wait_stalls(group, at), at)
        elif lane.state in (MembershipState.JOINED, MembershipState.SYNCING):
            end_stalls(group, waits.sync_wait_stalls(group, at), at)
    if lane.unsynced_joins:
        end_stalls(group, members.join_loop_stalls(group, lane, at), at)
    lane.rejoin_signals = None
    lane.unsynced_joins = 0


def _has_just_ended(group: GroupHistory, at: int) -> bool:
    """Whether a group-wide stall ended within the last second. In a large group, finding it again is expensive."""
    return any(
        stall.kind in _GROUP_WIDE and stall.until is not None and at - stall.until < SECOND
        for stall in group.ended_stalls
    )


_GROUP_WIDE = frozenset({StallKind.JOIN_WAITS, StallKind.SYNC_MISSING, StallKind.SYNC_WAITS})
