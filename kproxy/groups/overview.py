"""The groups of a trace as rows, and the history of one group as a view."""

from __future__ import annotations

from dissectors.groups import ConsumerGroups
from dissectors.groups.explanations import EVENT_KINDS
from kproxy.groups.rows import GroupRow, GroupView, group_row, group_view
from kproxy.trace.lines import FRAME_LINES, CloseLine, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine


def observe_line(groups: ConsumerGroups, line: Line, row: int, at: int) -> None:
    """Apply the next line, given its row and its time (ns)."""
    if isinstance(line, FRAME_LINES):
        if line.not_decoded is not None:  # its body may have been about a group
            if line.api is None or line.api in EVENT_KINDS:
                groups.on_gap(line.connection_id, at, responses=isinstance(line, ResponseLine))
            return
        if line.group_id is None:  # most frames
            return
        if isinstance(line, RequestLine):
            groups.on_request(line, row, at)
        else:
            groups.on_response(line, row, at)
    elif isinstance(line, OpenLine | CloseLine):  # a trace may reuse a connection id without a close line
        groups.on_close(line.connection_id, line.by if isinstance(line, CloseLine) else None, row, at)
    elif isinstance(line, FindingLine):
        groups.on_finding(line.connection_id, line, row, at)
    elif isinstance(line, GapLine):  # one without a connection stands for missing lines of the trace
        groups.on_gap(line.connection_id or None, at, responses=line.direction != "request")


class GroupsOverview:
    """Collects groups from the lines of a trace; `evicted` counts those that are no longer kept."""

    def __init__(self) -> None:
        self._groups = ConsumerGroups(timeline=True)

    @property
    def evicted(self) -> int:
        """Number of groups that are no longer kept."""
        return self._groups.evicted

    def observe(self, line: Line, row: int, at: int) -> None:
        """Apply the next line, given its row in the index and its time (ns)."""
        observe_line(self._groups, line, row, at)

    def rows(self, now: int) -> list[GroupRow]:
        """Return the groups at time `now` (ns), ordered by when they were first seen."""
        return [group_row(group, now) for group in sorted(self._groups, key=lambda group: group.first)]

    def view(self, group_id: str, now: int) -> GroupView | None:
        """Return the view of one group at time `now` (ns), None if it is not kept."""
        group = self._groups.get(group_id)
        return None if group is None else group_view(group, now)
