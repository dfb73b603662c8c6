"""Consumer groups from trace lines: their timeline, their state, and why they make no progress."""

from kproxy.groups.model import Boundary, Event, EventKind, GroupStatus, Protocol, Stall, StallKind, Standing
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
    "Protocol",
    "Stall",
    "StallKind",
    "Standing",
]
