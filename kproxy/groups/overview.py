"""Groups: every line is taken once; rows say how each group stands, a view shows what led there."""

from __future__ import annotations

from collections.abc import Iterable

from kproxy.counting.bounded_dict import Recent
from kproxy.counting.in_flight import RequestPairing
from kproxy.counting.names import LONGEST
from kproxy.groups import explanations, lifecycle
from kproxy.groups.lanes import Lanes
from kproxy.groups.model import Event, EventKind, GroupHistory, Lane, Protocol, Stall, StallKind
from kproxy.groups.rows import GroupRow, GroupView, group_row, group_view
from kproxy.groups.stalls.endings import over
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

#: Groups that are kept: those that something happened in last.
MOST_GROUPS = 500

#: Events of all lanes. A lane keeps its share of them, but so many at least and at most.
MOST_EVENTS = 40_000
FEWEST = 16
MOST_STEPS = 1_000
MOST_BEATS = 4_000

#: Requests in flight, of all members and of one; clients that are never answered cannot fill memory.
MOST_IN_FLIGHT = 20_000
MOST_WAITING = 50

_BEATS = frozenset({EventKind.HEARTBEAT, EventKind.COMMIT, EventKind.OFFSETS})

#: Errors that are no more than how groups work, or that clients overcome by themselves.
_MILD = {explanations.REJOIN: "info", **dict.fromkeys(explanations.DENIED, "warning")}


class GroupsOverview:
    """Takes the lines of a trace, without bodies and frames; `rows` are the groups that were seen in it.

    Of more than `MOST_GROUPS` those stay that something happened in last: `let_go` counts the others. Without a
    `timeline` lanes keep no events; stalls are the same.
    """

    def __init__(self, *, timeline: bool = True) -> None:
        self._timeline = timeline
        self._groups: Recent[str, GroupHistory] = Recent(MOST_GROUPS)
        self._lanes = Lanes(self._groups)
        self._in_flight: RequestPairing[tuple[Lane, Event]] = RequestPairing(MOST_IN_FLIGHT)

    @property
    def let_go(self) -> int:
        """Groups that are no longer kept."""
        return self._groups.let_go

    def take(self, line: Line, row: int, at: int) -> None:
        """Take the next line, its row in the index and its time in ns."""
        if isinstance(line, FRAME_LINES):
            self.take_frame(line, row, at)
        elif isinstance(line, OpenLine | CloseLine):  # a trace may use an id again, and not have said the end
            self._close(line.connection_id, line.by if isinstance(line, CloseLine) else None, row, at)
        elif isinstance(line, FindingLine):
            self._finding(line, row, at)
        elif isinstance(line, GapLine):
            self._gap(line, at)

    @property
    def lanes(self) -> int:
        """Lanes of all groups."""
        return len(self._lanes)

    def each(self) -> Iterable[GroupHistory]:
        """All groups, to look at."""
        return self._groups.values()

    def get(self, group_id: str) -> GroupHistory | None:
        """A group, to look at; None if it is not kept."""
        return self._groups.get(group_id[:LONGEST])

    def rows(self, now: int) -> list[GroupRow]:
        """The groups as they are at `now` (ns), in the order in which they were first seen."""
        return [group_row(group, now) for group in sorted(self._groups.values(), key=lambda group: group.first)]

    def view(self, group_id: str, now: int) -> GroupView | None:
        """Everything about one group as it is at `now` (ns); None if it is not kept."""
        group = self._groups.get(group_id)
        return None if group is None else group_view(group, now)

    def take_frame(self, line: RequestLine | ResponseLine, row: int, at: int) -> GroupHistory | None:
        """Take the line of a frame; return its group, None if it says nothing about one."""
        if line.group_id is None or (kind := explanations.KINDS.get(line.api or "")) is None:
            return None
        group_id = line.group_id[:LONGEST]
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
                kind = _by_epoch(line.generation_id)
            lane = self._lanes.of(group, line, kind, row, at)
            event = Event(kind, at, row, generation=line.generation_id)
            if self._timeline:
                self._keep(group, lane, event)
            lifecycle.asked(group, lane, event, line)
            if self._in_flight.asked(line, (lane, event)) and len(lane.waiting) < MOST_WAITING:
                lane.waiting[row] = event
        else:
            known = self._in_flight.answered(line)
            if known is not None and (not line.member_id or line.member_id == known[0].member_id):
                lane, event = known
            else:
                lane = self._lanes.of(group, line, kind if known is None else known[1].kind, row, at)
                event = known[1] if known is not None else Event(kind, at - max(line.latency_us or 0, 0) * 1000, row)
            if known is None and self._timeline:
                self._keep(group, lane, event)
            self._answer(group, lane, event, line, at)
        if line.findings:
            _judge(group, lane, event, line.findings, row, at)
        return group

    def _answer(self, group: GroupHistory, lane: Lane, event: Event, line: ResponseLine, at: int) -> None:
        event.until = at
        if line.generation_id is not None and not line.errors:
            event.generation = line.generation_id
        if line.errors:
            error = line.errors[0].name[:LONGEST]
            if error not in explanations.ORDINARY:
                group.errors.add(line.errors)
                lane.errors.add(line.errors)
                event.severity = "warning" if event.kind is EventKind.COMMIT else _MILD.get(error, "error")
            event.error = error
        lifecycle.answered(group, lane, event, line, at)

    def _keep(self, group: GroupHistory, lane: Lane, event: Event) -> None:
        """Show an event in its lane, and let older ones go for it."""
        kept, most = (lane.beats, MOST_BEATS) if event.kind in _BEATS else (lane.steps, MOST_STEPS)
        most = max(FEWEST, min(most, MOST_EVENTS // max(1, len(self._lanes))))
        kept.append(event)
        if len(kept) > most:
            group.events_let_go += len(kept) - most
            del kept[:-most]

    def _close(self, connection_id: str, by: str | None, row: int, at: int) -> None:
        for _, event in self._in_flight.ended(connection_id):
            event.until, event.error, event.severity = at, "connection ended", "warning"
        for group, lane in self._lanes.falls_silent(connection_id):
            if lane.connection_id == connection_id:
                if self._timeline:
                    self._keep(group, lane, Event(EventKind.CLOSED, at, row, until=at))
                lifecycle.closed(group, lane, by, at)

    def _gap(self, line: GapLine, at: int) -> None:
        """Something of a connection was not seen; if the trace lacks lines, of any."""
        for _, event in self._in_flight.missed(line):
            event.until = at
        every = ((group, lane) for group in self._groups.values() for lane in group.lanes.values())
        for group, lane in self._lanes.spoken_for(line.connection_id) if line.connection_id else every:
            lifecycle.missed(group, lane, at)

    def _finding(self, line: FindingLine, row: int, at: int) -> None:
        """A finding beside the frames: of the group that its connection speaks for, or that it names."""
        spoken = self._lanes.spoken_for(line.connection_id)
        named = [(group, lane) for group, lane in spoken if repr(group.id) in line.message]
        for group, lane in named or (spoken if len(spoken) == 1 and line.code[:1] == "S" else []):
            over(group, [_stall(line, lane, row, at)], at)


def _by_epoch(epoch: int | None) -> EventKind:
    """What a heartbeat says with its epoch (KIP-848): 0 joins, -1 leaves, -2 leaves for a while."""
    if epoch == 0:
        return EventKind.JOIN
    return EventKind.HEARTBEAT if epoch is None or epoch > 0 else EventKind.LEAVE


def _judge(group: GroupHistory, lane: Lane, event: Event, findings: list[FindingEntry], row: int, at: int) -> None:
    for finding in findings:
        if RANK.get(finding.severity, 0) > RANK.get(event.severity, -1):
            event.severity = finding.severity
        if RANK.get(finding.severity, 0):
            over(group, [_stall(finding, lane, row, at)], at)


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
