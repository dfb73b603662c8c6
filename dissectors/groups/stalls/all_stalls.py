"""List all stalls of a group, ongoing and ended, without duplicates."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from dissectors.findings import RANK
from dissectors.groups.model import SECOND, GroupHistory, MembershipState, Stall, StallKind
from dissectors.groups.stalls import members, waits

#: Rule code -> kinds of stalls that report the same problem, so that it is shown only once.
_EQUIVALENT = {
    "G001": (StallKind.JOIN_WAITS,),
    "G002": (StallKind.JOIN_UNANSWERED,),
    "G003": (StallKind.SYNC_MISSING,),
    "G004": (StallKind.SYNC_WAITS,),
    "G005": (StallKind.NOT_REJOINING,),
    "G006": (StallKind.SILENT,),
    "G007": (StallKind.LOST,),
    "G008": (StallKind.JOIN_LOOP,),
    "G009": (StallKind.REFUSED,),
    "G010": (StallKind.FENCED,),
    "G011": (StallKind.COMMIT_REFUSED,),
    "G012": (StallKind.LAGGING,),
    "G013": (StallKind.UNANSWERED,),
    "G014": (StallKind.COORDINATOR,),
    "G015": (StallKind.DISTURBED,),
    "S013": (StallKind.SYNC_MISSING, StallKind.LOST),
    "S014": (StallKind.JOIN_WAITS,),
    "S015": (StallKind.REFUSED,),
    "S016": (StallKind.JOIN_LOOP,),
    "S019": (StallKind.SILENT, StallKind.LOST),
    "S020": (StallKind.REFUSED, StallKind.COMMIT_REFUSED),
    "S022": (StallKind.COORDINATOR,),
    "S023": (StallKind.COORDINATOR,),
}

#: Stalls of a member that are part of the stall of the members that wait for it.
_INCLUDED = frozenset({StallKind.NOT_REJOINING, StallKind.LOST, StallKind.SILENT})

#: A rule may report a stall up to this long after its end (ns), at the rule's deadline.
_MAX_DELAY = 5 * SECOND


def all_stalls(group: GroupHistory, now: int) -> tuple[Stall, ...]:
    """Return the ongoing stalls, most severe first, then the ended stalls, latest first.

    A finding that reports the same problem as a stall is not listed; its code is added to the stall's `codes`.
    """
    ongoing = sorted(ongoing_stalls(group, now), key=lambda stall: (-RANK.get(stall.severity, 0), stall.since))
    stalls = _drop_included(ongoing + sorted(group.ended_stalls, key=lambda stall: -stall.since), now)
    detected = [stall for stall in stalls if stall.kind is not StallKind.FINDING]
    findings: list[Stall] = []
    for finding in (stall for stall in stalls if stall.kind is StallKind.FINDING):
        for index, stall in enumerate(detected):
            if _reports_same_problem(finding, stall, now):
                if finding.codes[0] not in stall.codes:
                    detected[index] = replace(stall, codes=(*stall.codes, *finding.codes))
                break
        else:
            findings.append(finding)
    ongoing_detected = [stall for stall in detected if stall.until is None]
    return (*ongoing_detected, *sorted((*detected[len(ongoing_detected) :], *findings), key=lambda stall: -stall.since))


def ongoing_stalls(group: GroupHistory, now: int) -> Iterator[Stall]:
    """Yield the stalls of a group that are ongoing at `now` (ns)."""
    states = {lane.state for lane in group.lanes.values()}
    if MembershipState.JOINING in states:
        yield from waits.join_wait_stalls(group, now)
    if MembershipState.JOINED in states or MembershipState.SYNCING in states:
        yield from waits.sync_wait_stalls(group, now)
    yield from waits.lagging_epoch_stalls(group, now)
    yield from waits.no_coordinator_stalls(group, now)
    for lane in group.lanes.values():
        if members.is_healthy(lane, now):
            continue
        yield from members.not_rejoining_stalls(group, lane, now)
        yield from members.silence_stalls(group, lane, now)
        yield from members.lost_stalls(group, lane, now)
        yield from members.join_loop_stalls(group, lane, now)
        yield from members.disturbance_stalls(lane, now)
        yield from members.unanswered_stalls(group, lane, now)
        for streak in lane.refusals.values():
            yield from members.refusal_stalls(group, lane, streak)


def _drop_included(stalls: list[Stall], now: int) -> list[Stall]:
    """Drop the stalls of a member that are part of the stall of the members that wait for it."""
    join_waits = [stall for stall in stalls if stall.kind is StallKind.JOIN_WAITS]
    return [
        stall
        for stall in stalls
        if stall.kind not in _INCLUDED
        or not any(
            {*join_wait.blamed}.issuperset(stall.blamed)
            and join_wait.since <= (now if stall.until is None else stall.until)
            and stall.since <= (now if join_wait.until is None else join_wait.until)
            for join_wait in join_waits
        )
    ]


def _reports_same_problem(finding: Stall, stall: Stall, now: int) -> bool:
    """Whether a finding reports the same problem as a stall: same kind, time and member, if both name members."""
    end = now if stall.until is None else stall.until
    stall_members = {*stall.waiting, *stall.blamed}
    return (
        stall.kind in _EQUIVALENT.get(finding.codes[0], ())
        and stall.since <= finding.since <= end + _MAX_DELAY
        and (not finding.waiting or not stall_members or not stall_members.isdisjoint(finding.waiting))
    )
