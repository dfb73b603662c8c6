"""All stalls of a group, those that last and those that are over, each once."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kproxy.groups.model import SECOND, GroupHistory, Stall, StallKind, Standing
from kproxy.groups.stalls import members, waits
from kproxy.trace.formatting import RANK

#: Rules that say what a stall says, so that it is told once.
_SAME = {
    "S013": (StallKind.SYNC_MISSING, StallKind.LOST),
    "S014": (StallKind.JOIN_WAITS,),
    "S015": (StallKind.REFUSED,),
    "S016": (StallKind.JOIN_LOOP,),
    "S019": (StallKind.SILENT, StallKind.LOST),
    "S020": (StallKind.REFUSED, StallKind.COMMIT_REFUSED),
    "S022": (StallKind.COORDINATOR,),
    "S023": (StallKind.COORDINATOR,),
}

#: What the stall of those who wait for a member says of it too.
_SAID = frozenset({StallKind.NOT_REJOINING, StallKind.LOST, StallKind.SILENT})

#: A rule waits for its deadline, which can be behind the end of what it tells of.
_NEAR = 5 * SECOND


def all_stalls(group: GroupHistory, now: int) -> tuple[Stall, ...]:
    """What stands still, the worst first, then what did, the latest first; rules that say the same are codes of it."""
    lasting = sorted(lasting_stalls(group, now), key=lambda stall: (-RANK.get(stall.severity, 0), stall.since))
    told = _distinct(lasting + sorted(group.past, key=lambda stall: -stall.since), now)
    own = [stall for stall in told if stall.kind is not StallKind.FINDING]
    rest: list[Stall] = []
    for finding in (stall for stall in told if stall.kind is StallKind.FINDING):
        for place, stall in enumerate(own):
            if _says(finding, stall, now):
                if finding.codes[0] not in stall.codes:
                    own[place] = replace(stall, codes=(*stall.codes, *finding.codes))
                break
        else:
            rest.append(finding)
    lasts = [stall for stall in own if stall.until is None]
    return (*lasts, *sorted((*own[len(lasts) :], *rest), key=lambda stall: -stall.since))


def lasting_stalls(group: GroupHistory, now: int) -> Iterator[Stall]:
    """What stands still in a group at `now` (ns)."""
    standings = {lane.standing for lane in group.lanes.values()}
    if Standing.JOINING in standings:
        yield from waits.joins(group, now)
    if Standing.JOINED in standings or Standing.SYNCING in standings:
        yield from waits.syncs(group, now)
    yield from waits.lagging(group, now)
    yield from waits.coordinator(group, now)
    for lane in group.lanes.values():
        if members.is_well(lane, now):
            continue
        yield from members.not_rejoining(group, lane, now)
        yield from members.silence(group, lane, now)
        yield from members.lost(group, lane, now)
        yield from members.looping(group, lane, now)
        yield from members.unanswered(group, lane, now)
        for streak in lane.refused.values():
            yield from members.refusal(group, lane, streak)


def _distinct(told: list[Stall], now: int) -> list[Stall]:
    """Without what is said of a member where others wait for it."""
    waited = [stall for stall in told if stall.kind is StallKind.JOIN_WAITS]
    return [
        stall
        for stall in told
        if stall.kind not in _SAID
        or not any(
            {*each.blamed}.issuperset(stall.blamed)
            and each.since <= (now if stall.until is None else stall.until)
            and stall.since <= (now if each.until is None else each.until)
            for each in waited
        )
    ]


def _says(finding: Stall, stall: Stall, now: int) -> bool:
    """Whether a finding tells of that stall: its kind, time and member."""
    ends = now if stall.until is None else stall.until
    return (
        stall.kind in _SAME.get(finding.codes[0], ())
        and stall.since <= finding.since <= ends + _NEAR
        and (not finding.who or not {*finding.who}.isdisjoint((*stall.who, *stall.blamed)))
    )
