"""Consumer groups from trace lines, as rows and as a timeline; `dissectors.groups` tracks them."""

from kproxy.groups.overview import GroupsOverview
from kproxy.groups.rows import GroupRow, GroupView, LaneView, MemberRow

__all__ = ["GroupRow", "GroupView", "GroupsOverview", "LaneView", "MemberRow"]
