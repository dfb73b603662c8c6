"""Consumer groups from trace lines: timeline, state, and the reasons why they make no progress."""

from kproxy.groups.model import Boundary, Event, EventKind, GroupStatus, MembershipState, Protocol, Stall, StallKind
from kproxy.groups.overview import GroupsOverview
from kproxy.groups.rows import GroupRow, GroupView, LaneView, MemberRow

__all__ = [
    "Boundary",
    "Event",
    "EventKind",
    "GroupRow",
    "GroupStatus",
    "GroupView",
    "GroupsOverview",
    "LaneView",
    "MemberRow",
    "MembershipState",
    "Protocol",
    "Stall",
    "StallKind",
]
