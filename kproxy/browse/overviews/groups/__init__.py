"""Groups: a timeline of each, how it stands, and why it stands still if it does."""

from kproxy.browse.overviews.groups.model import (
    Boundary,
    Event,
    EventKind,
    GroupStatus,
    Protocol,
    Stall,
    StallKind,
    Standing,
)
from kproxy.browse.overviews.groups.overview import GroupsOverview
from kproxy.browse.overviews.groups.rows import GroupRow, GroupView, LaneView, MemberRow

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
