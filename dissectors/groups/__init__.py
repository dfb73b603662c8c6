"""Follow consumer groups from facts of frames: members, generations, rebalances, and why a group makes no progress."""

from dissectors.groups.consumer_groups import ConsumerGroups
from dissectors.groups.model import Boundary, Event, EventKind, GroupStatus, MembershipState, Protocol, Stall, StallKind

__all__ = [
    "Boundary",
    "ConsumerGroups",
    "Event",
    "EventKind",
    "GroupStatus",
    "MembershipState",
    "Protocol",
    "Stall",
    "StallKind",
]
