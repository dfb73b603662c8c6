"""Groups: a timeline of each, how it stands, and why it stands still if it does."""

from kproxy.browse.overviews.groups.model import (
    Boundary,
    Event,
    Kind,
    Protocol,
    Stall,
    StallKind,
    Standing,
    State,
)
from kproxy.browse.overviews.groups.overview import Groups
from kproxy.browse.overviews.groups.rows import GroupRow, GroupView, LaneView, MemberRow

__all__ = [
    "Boundary",
    "Event",
    "GroupRow",
    "GroupView",
    "Groups",
    "Kind",
    "LaneView",
    "MemberRow",
    "Protocol",
    "Stall",
    "StallKind",
    "Standing",
    "State",
]
