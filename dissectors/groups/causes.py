"""Find out why groups rebalance: which member caused it, and how. Also used by the Spark job `rebalances`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dissectors.groups import explanations
from dissectors.groups.model import (
    SECOND,
    CauseKind,
    Disturbance,
    GroupHistory,
    Lane,
    MembershipState,
    RebalanceCause,
)
from dissectors.schemas.codes import Error

#: Fact about a rebalance -> its cause. The first fact that applies decides, otherwise `DEFAULT_CAUSE`. `left`: a member
#: left before the first one joined. `is_new`: the first member that joined was not in the previous generation.
#: `was_told`: a member got REBALANCE_IN_PROGRESS before the first one joined.
CAUSES: Final[Mapping[str, CauseKind]] = {
    "left": CauseKind.LEAVE,
    "is_new": CauseKind.JOIN,
    "was_told": CauseKind.COORDINATOR,
}
DEFAULT_CAUSE: Final = CauseKind.REJOIN

#: Errors of a heartbeat or SyncGroup after which a member rejoins.
REJOIN_ERRORS: Final = frozenset({
    explanations.REJOIN, Error.ILLEGAL_GENERATION.name, Error.NOT_COORDINATOR.name,
    Error.COORDINATOR_NOT_AVAILABLE.name, Error.COORDINATOR_LOAD_IN_PROGRESS.name,
})  # fmt: skip

#: Rebalances caused by one process are not counted together if they are further apart than this (ns).
_MAX_GAP = 15 * SECOND


def on_leave(group: GroupHistory, lane: Lane) -> None:
    """Record that a member has left. If it was the last one, the group starts over with the next member."""
    if not group.current_members():
        group.leaver, group.rejoin_signaled = None, False
    elif group.leaver is None and group.joiner is None:
        group.leaver = lane.key, lane.label


def on_join(group: GroupHistory, lane: Lane, row: int) -> None:
    """Record that a member sends JoinGroup. The first one in a generation may cause the next generation."""
    if group.joiner is None:
        group.joiner = lane, row, lane.generation < 0 or lane.generation != group.generation


def on_error(group: GroupHistory, error: str) -> None:
    """Record that a heartbeat or SyncGroup was refused."""
    if error in REJOIN_ERRORS and group.joiner is None:
        group.rejoin_signaled = True


def on_refused_join(group: GroupHistory, row: int) -> None:
    """Record that a JoinGroup was refused, so that it causes no rebalance."""
    if group.joiner is not None and group.joiner[1] == row:
        group.joiner = None


def cause_of(group: GroupHistory, lane: Lane, expired: list[Lane], at: int) -> RebalanceCause:
    """Return the cause of a generation that `lane` is the first to reach, and start looking for the next cause.

    The other members are still joining. `expired` are the members of the previous generation that neither joined nor
    left.
    """
    joiner, _, is_new = group.joiner or (lane, 0, lane.generation < 0)
    by_leader = False
    facts = {"left": group.leaver is not None, "is_new": is_new, "was_told": group.rejoin_signaled}
    kind = next((cause for fact, cause in CAUSES.items() if facts[fact]), DEFAULT_CAUSE)
    expired_text = f"; the session of {_member_names(expired)} expired" if expired else ""
    if kind is CauseKind.LEAVE and group.leaver is not None:
        key, label = group.leaver
        text = f"{label} left{expired_text}"
    elif kind is CauseKind.COORDINATOR:
        key = expired[0].key if expired else ""
        text = (
            f"the session of {_member_names(expired)} expired"
            if expired
            else "the coordinator began it, for no visible reason"
        )
    else:
        key, by_leader = joiner.key, group.leader == joiner.key
        leader_note = " (the leader)" if by_leader else ""
        text = f"{joiner.label} joined" if kind is CauseKind.JOIN else f"{joiner.label}{leader_note} rejoined by itself"
        text += expired_text
    group.leaver, group.joiner, group.rejoin_signaled = None, None, False
    if (blamed := group.lanes.get(key)) is not None and not _is_follow_up_rejoin(kind, group, at):
        if blamed.disturbance is None or at - blamed.disturbance.last > _MAX_GAP:
            blamed.disturbance = Disturbance(at, blamed.row, at)
        blamed.disturbance.last = at
        blamed.disturbance.kinds[kind] = blamed.disturbance.kinds.get(kind, 0) + 1
    return RebalanceCause(kind, key, text, by_leader)


def _is_follow_up_rejoin(kind: CauseKind, group: GroupHistory, at: int) -> bool:
    """Whether a member rejoins as a cooperative member does after each rebalance in which it gave up partitions."""
    if kind is not CauseKind.REJOIN or not group.boundaries:
        return False
    previous = group.boundaries[-1]
    return previous.cause is not None and previous.cause.kind is not CauseKind.REJOIN and at - previous.at < _MAX_GAP


def cause_of_epoch(group: GroupHistory, lane: Lane, expired: list[Lane]) -> RebalanceCause:
    """Return the cause of an epoch (newer protocols) that `lane` is the first to reach; `expired` as in `cause_of`."""
    if group.leaver is not None:
        key, label = group.leaver
        cause = RebalanceCause(CauseKind.LEAVE, key, f"{label} left")
    elif lane.state is MembershipState.JOINING or lane.generation <= 0:
        cause = RebalanceCause(CauseKind.JOIN, lane.key, f"{lane.label} joined")
    elif expired:
        cause = RebalanceCause(
            CauseKind.COORDINATOR, expired[0].key, f"the session of {_member_names(expired)} expired"
        )
    else:
        cause = RebalanceCause(CauseKind.COORDINATOR, "", "the coordinator began it")
    group.leaver, group.joiner, group.rejoin_signaled = None, None, False
    return cause


def _member_names(lanes: list[Lane]) -> str:
    more_text = f" and {len(lanes) - 1} more" if len(lanes) > 1 else ""
    return lanes[0].label + more_text
