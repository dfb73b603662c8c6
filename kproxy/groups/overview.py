"""The state of all groups in a trace, as rows, and the history of one, as a view."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kproxy.counting.bounded_dict import Recent
from kproxy.counting.names import MAX_NAME_LENGTH
from kproxy.groups import explanations, lifecycle
from kproxy.groups.lanes import Lanes
from kproxy.groups.model import Event, EventKind, GroupHistory, Lane, Protocol, Stall, StallKind
from kproxy.groups.rows import GroupRow, GroupView, group_row, group_view
from kproxy.groups.stalls.endings import end_stalls
from kproxy.trace.formatting import RANK, safe
from kproxy.trace.lines import (
    FRAME_LINES,
    CloseLine,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    OpenLine,
    RequestLine,
    ResponseLine,
)

#: Groups that are kept: the most recently active ones.
MAX_GROUPS = 500

#: Limits for events: of all lanes; the minimum per lane; the maximum of each kind per lane.
MAX_EVENTS = 40_000
MIN_LANE_EVENTS = 16
MAX_TRANSITIONS = 1_000
MAX_RECURRING = 4_000

#: Limits for requests in flight, of all members and of one, so that unanswered requests cannot fill the memory.
MAX_IN_FLIGHT = 20_000
MAX_IN_FLIGHT_PER_MEMBER = 50

_RECURRING = frozenset({EventKind.HEARTBEAT, EventKind.COMMIT, EventKind.OFFSETS})

#: Errors of normal operation, or that clients recover from, and their severity.
_SEVERITIES = {explanations.REJOIN: "info", **dict.fromkeys(explanations.NO_COORDINATOR, "warning")}


class GroupsOverview:
    """Collects groups from the lines of a trace; bodies and frames are not needed.

    It keeps the `MAX_GROUPS` most recently active groups; `evicted` counts the others. Without `timeline`, lanes keep
    no events, but stalls are detected all the same.
    """

    def __init__(self, *, timeline: bool = True) -> None:
        self._timeline = timeline
        self._groups: Recent[str, GroupHistory] = Recent(MAX_GROUPS)
        self._lanes = Lanes(self._groups)
        self._in_flight: dict[int, tuple[Lane, Event]] = {}  # by row

    @property
    def evicted(self) -> int:
        """Number of groups that are no longer kept."""
        return self._groups.evicted

    def observe(self, line: Line, row: int, at: int, requests: Collection[int]) -> None:
        """Apply the next line: its row in the index, its time (ns), and the requests in flight that it is about."""
        if isinstance(line, FRAME_LINES):
            self.observe_frame(line, row, at, requests)
        elif isinstance(line, OpenLine | CloseLine):  # a trace may reuse a connection id without a close line
            self._close(line.connection_id, line.by if isinstance(line, CloseLine) else None, row, at, requests)
        elif isinstance(line, FindingLine):
            self._finding(line, row, at)
        elif isinstance(line, GapLine):
            self._gap(line, at, requests)

    @property
    def lanes(self) -> int:
        """Number of lanes of all groups."""
        return len(self._lanes)

    def each(self) -> Iterable[GroupHistory]:
        """All groups. The caller must not change them."""
        return self._groups.values()

    def get(self, group_id: str) -> GroupHistory | None:
        """A group, None if it is not kept. The caller must not change it."""
        return self._groups.get(group_id[:MAX_NAME_LENGTH])

    def rows(self, now: int) -> list[GroupRow]:
        """The groups at time `now` (ns), ordered by when they were first seen."""
        return [group_row(group, now) for group in sorted(self._groups.values(), key=lambda group: group.first)]

    def view(self, group_id: str, now: int) -> GroupView | None:
        """Everything about one group at time `now` (ns), None if it is not kept."""
        group = self._groups.get(group_id)
        return None if group is None else group_view(group, now)

    def observe_frame(
        self, line: RequestLine | ResponseLine, row: int, at: int, requests: Collection[int]
    ) -> GroupHistory | None:
        """Apply the line of a frame; return its group, or None if the frame is not about a group."""
        if line.group_id is None or (kind := explanations.KINDS.get(line.api or "")) is None:
            return None
        group_id = line.group_id[:MAX_NAME_LENGTH]
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = GroupHistory(group_id, at, row)
        else:
            self._groups.move_to_end(group_id)
        protocol = explanations.PROTOCOLS.get(line.api or "")
        if protocol is not None:
            group.protocol = protocol
        group.last, group.row = at, row
        if isinstance(line, RequestLine):
            if protocol not in (None, Protocol.CLASSIC):
                kind = _kind_of_epoch(line.generation_id)
            lane = self._lanes.find_or_add(group, line, kind, row, at)
            event = Event(kind, at, row, generation=line.generation_id)
            if self._timeline:
                self._add_event(group, lane, event)
            lifecycle.on_request(group, lane, event, line)
            if requests and len(self._in_flight) < MAX_IN_FLIGHT:
                self._in_flight[row] = lane, event
                if len(lane.in_flight) < MAX_IN_FLIGHT_PER_MEMBER:
                    lane.in_flight[row] = event
        else:
            known = next(self._ended(requests), None)
            if known is not None and (not line.member_id or line.member_id == known[0].member_id):
                lane, event = known
            else:
                lane = self._lanes.find_or_add(group, line, kind if known is None else known[1].kind, row, at)
                event = known[1] if known is not None else Event(kind, at - max(line.latency_us or 0, 0) * 1000, row)
            if known is None and self._timeline:
                self._add_event(group, lane, event)
            self._answer(group, lane, event, line, at)
        if line.findings:
            _add_findings(group, lane, event, line.findings, row, at)
        return group

    def _answer(self, group: GroupHistory, lane: Lane, event: Event, line: ResponseLine, at: int) -> None:
        event.until = at
        if line.generation_id is not None and not line.errors:
            event.generation = line.generation_id
        if line.errors:
            error = line.errors[0].name[:MAX_NAME_LENGTH]
            if error != explanations.NEW_MEMBER_ID:
                group.errors.add(line.errors)
                lane.errors.add(line.errors)
                event.severity = "warning" if event.kind is EventKind.COMMIT else _SEVERITIES.get(error, "error")
            event.error = error
        lifecycle.on_response(group, lane, event, line, at)

    def _add_event(self, group: GroupHistory, lane: Lane, event: Event) -> None:
        """Add an event to its lane, and remove the oldest if there are too many."""
        kept, most = (
            (lane.recurring, MAX_RECURRING) if event.kind in _RECURRING else (lane.transitions, MAX_TRANSITIONS)
        )
        most = max(MIN_LANE_EVENTS, min(most, MAX_EVENTS // max(1, len(self._lanes))))
        kept.append(event)
        if len(kept) > most:
            group.events_evicted += len(kept) - most
            del kept[:-most]

    def _ended(self, requests: Collection[int]) -> Iterator[tuple[Lane, Event]]:
        return (self._in_flight.pop(row) for row in requests if row in self._in_flight)

    def _close(self, connection_id: str, by: str | None, row: int, at: int, requests: Collection[int]) -> None:
        for _, event in self._ended(requests):
            event.until, event.error, event.severity = at, "connection ended", "warning"
        for group, lane in self._lanes.remove_connection(connection_id):
            if lane.connection_id == connection_id:
                if self._timeline:
                    self._add_event(group, lane, Event(EventKind.CLOSED, at, row, until=at))
                lifecycle.on_close(group, lane, by, at)

    def _gap(self, line: GapLine, at: int, requests: Collection[int]) -> None:
        """Apply a gap in one connection, or in all of them if trace lines are missing."""
        for _, event in self._ended(requests):
            event.until = at
        every = ((group, lane) for group in self._groups.values() for lane in group.lanes.values())
        for group, lane in self._lanes.lanes_of(line.connection_id) if line.connection_id else every:
            lifecycle.on_gap(group, lane, at)

    def _finding(self, line: FindingLine, row: int, at: int) -> None:
        """Apply a finding without a frame: to the groups of its connection that it names, else to its only group."""
        spoken = self._lanes.lanes_of(line.connection_id)
        named = [(group, lane) for group, lane in spoken if repr(group.id) in line.message]
        for group, lane in named or (spoken if len(spoken) == 1 and line.code[:1] == "S" else []):
            end_stalls(group, [_stall(line, lane, row, at)], at)


def _kind_of_epoch(epoch: int | None) -> EventKind:
    """The meaning of a heartbeat's epoch (KIP-848): 0 joins, -1 leaves, -2 leaves temporarily (static members)."""
    if epoch == 0:
        return EventKind.JOIN
    return EventKind.HEARTBEAT if epoch is None or epoch > 0 else EventKind.LEAVE


def _add_findings(
    group: GroupHistory, lane: Lane, event: Event, findings: list[FindingEntry], row: int, at: int
) -> None:
    for finding in findings:
        if RANK.get(finding.severity, 0) > RANK.get(event.severity, -1):
            event.severity = finding.severity
        if RANK.get(finding.severity, 0):
            end_stalls(group, [_stall(finding, lane, row, at)], at)


def _stall(finding: FindingEntry | FindingLine, lane: Lane, row: int, at: int) -> Stall:
    return Stall(
        StallKind.FINDING,
        finding.severity,
        at,
        row,
        safe(finding.message),
        safe(finding.hint or ""),
        (lane.key,),
        codes=(finding.code,),
    )
