"""Stalls that come to their end: they are told as they were just before."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kproxy.groups.model import SECOND, GroupHistory, Lane, Stall, StallKind, Standing
from kproxy.groups.stalls import members, waits


def over(group: GroupHistory, found: Iterable[Stall], until: int) -> None:
    """Keep stalls that have come to their end."""
    for stall in found:
        if any(each.row == stall.row and each.kind is stall.kind and each.codes == stall.codes for each in group.past):
            continue  # told when it ended for another of those who waited
        if len(group.past) == group.past.maxlen:
            group.stalls_let_go += 1
        group.past.append(replace(stall, until=until))
        group.just_over += 1


def goes(group: GroupHistory, lane: Lane, at: int) -> None:
    """A member is no longer one: what stood still with it is over."""
    if lane.standing is Standing.MEMBER:
        over(group, members.silence(group, lane, at), at)
        over(group, members.not_rejoining(group, lane, at), at)
    elif lane.standing is Standing.LOST:
        over(group, members.lost(group, lane, at), at)
    elif at - lane.since > waits.SYNC_PATIENCE and not _just_told(group, at):
        if lane.standing is Standing.JOINING:
            over(group, waits.joins(group, at), at)
        elif lane.standing in (Standing.JOINED, Standing.SYNCING):
            over(group, waits.syncs(group, at), at)
    if lane.unsynced:
        over(group, members.looping(group, lane, at), at)
    lane.told = None
    lane.unsynced = 0


def _just_told(group: GroupHistory, at: int) -> bool:
    """Whether the same was told a moment ago, of another member that goes: in a large group it is dear to find out."""
    return any(each.kind in _OF_ALL and each.until is not None and at - each.until < SECOND for each in group.past)


_OF_ALL = frozenset({StallKind.JOIN_WAITS, StallKind.SYNC_MISSING, StallKind.SYNC_WAITS})
