"""Follow the groups of a run from the frames that name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dissectors.bounded import MAX_NAME_LENGTH, EvictionCountingDict
from dissectors.findings import RANK, Severity
from dissectors.groups import explanations, lifecycle
from dissectors.groups.facts import GroupFinding, GroupFrame, GroupResponse
from dissectors.groups.lanes import Lanes
from dissectors.groups.model import Event, EventKind, GroupHistory, Lane, MembershipState, Stall, StallKind
from dissectors.groups.stalls.endings import end_stalls
from dissectors.groups.unanswered_requests import UnansweredRequests
from dissectors.plain_text import printable_text

#: The most groups kept; these are the most recently active ones.
MAX_GROUPS = 500

#: Limits on events: in all lanes; the lowest limit per lane; the most transitions and recurring events per lane.
MAX_EVENTS = 40_000
MIN_LANE_EVENTS = 16
MAX_TRANSITIONS = 1_000
MAX_RECURRING = 4_000

#: Limit on the requests in flight of one member, so that unanswered requests cannot fill the memory.
MAX_IN_FLIGHT_PER_MEMBER = 50

_RECURRING = frozenset({EventKind.HEARTBEAT, EventKind.COMMIT, EventKind.OFFSETS})

#: The severity of errors that belong to normal operation or that clients recover from.
_SEVERITIES = {explanations.REJOIN: "info", **dict.fromkeys(explanations.COORDINATOR_ERRORS, "warning")}


class ConsumerGroups:
    """Follows groups: members, generations, rebalances and stalls. Bodies and bytes of frames are not needed.

    Each method applies the next thing that happened, with its `row`, a number that the caller chooses, and its time
    `at` (ns). Frames that are not about a group are ignored. The `MAX_GROUPS` most recently active groups are kept.
    Without `timeline`, lanes keep no events, but stalls are still detected.
    """

    def __init__(self, *, timeline: bool) -> None:
        self._timeline = timeline
        self._groups: EvictionCountingDict[str, GroupHistory] = EvictionCountingDict(MAX_GROUPS)
        self._lanes = Lanes(self._groups)
        self._unanswered = UnansweredRequests()
        self._may_have_lost_members = False  # whether a connection has ended since the last `_give_up_lost_members`

    @property
    def evicted(self) -> int:
        """The number of groups that are no longer kept."""
        return self._groups.evicted

    @property
    def lanes(self) -> int:
        """The number of lanes of all groups."""
        return len(self._lanes)

    def __iter__(self) -> Iterator[GroupHistory]:
        """Yield all groups. The caller must not change them."""
        return iter(self._groups.values())

    def get(self, group_id: str) -> GroupHistory | None:
        """Return a group, or None if it is not kept. The caller must not change it."""
        return self._groups.get(group_id)

    def on_request(self, frame: GroupFrame, row: int, at: int) -> GroupHistory | None:
        """Apply a request; return its group, or None if it is not about a group."""
        if (group := self._find_or_add(frame, row, at)) is None:
            return None
        api = frame.api or ""
        kind = _kind_of_epoch(frame.generation_id) if api in explanations.EPOCH_APIS else explanations.EVENT_KINDS[api]
        lane = self._lanes.find_or_add(group, frame, kind, row, at)
        event = Event(kind, at, row, generation=frame.generation_id, api=api)
        if self._timeline:
            self._add_event(group, lane, event)
        lifecycle.on_request(group, lane, event, frame)
        if self._unanswered.add(frame, lane, event) and len(lane.in_flight) < MAX_IN_FLIGHT_PER_MEMBER:
            lane.in_flight[row] = event
        if frame.findings:
            _add_findings(group, lane, event, frame.findings, row, at)
        return group

    def on_response(self, frame: GroupResponse, row: int, at: int) -> GroupHistory | None:
        """Apply a response; return its group, or None if it is not about a group."""
        if (group := self._find_or_add(frame, row, at)) is None:
            return None
        unanswered = self._unanswered.pop(frame)
        if unanswered is not None:
            lane, event, _ = unanswered
            if frame.member_id and frame.member_id != lane.member_id:
                lane = self._lanes.find_or_add(group, frame, event.kind, row, at)
        else:
            kind = explanations.EVENT_KINDS[frame.api or ""]
            lane = self._lanes.find_or_add(group, frame, kind, row, at)
            event = Event(kind, at - max(frame.latency_us or 0, 0) * 1000, row, api=frame.api or "")
            if self._timeline:
                self._add_event(group, lane, event)
        self._apply_response(group, lane, event, frame, at)
        if frame.findings:
            _add_findings(group, lane, event, frame.findings, row, at)
        return group

    def on_close(self, connection_id: str, by: str | None, row: int, at: int) -> None:
        """Apply the end of a connection. `by` is the side that closed it, None if it is just no longer observed."""
        for lane, event, _ in self._unanswered.remove(connection_id):
            event.until, event.error, event.severity = at, "connection ended", "warning"
            lane.in_flight.pop(event.row, None)  # the member may be using another connection by now
        for group, lane in self._lanes.remove_connection(connection_id):
            if lane.connection_id == connection_id:
                if self._timeline:
                    self._add_event(group, lane, Event(EventKind.CLOSED, at, row, until=at))
                lifecycle.on_close(group, lane, by, at)
                self._may_have_lost_members = True

    def on_gap(self, connection_id: str | None, at: int, *, responses: bool) -> None:
        """Apply a gap: frames of a connection (None: all) are missing; some may be `responses`."""
        for lane, event, _ in self._unanswered.remove(connection_id) if responses else ():
            event.until = at
            lane.in_flight.pop(event.row, None)
        all_lanes = ((group, lane) for group in self for lane in group.lanes.values())
        lanes = all_lanes if connection_id is None else self._lanes.lanes_of(connection_id)
        for group, lane in lanes:
            lifecycle.on_gap(group, lane, at)
        if not lanes or connection_id is None:  # a member that disappeared may have come back on this connection
            self._give_up_lost_members()

    def _give_up_lost_members(self) -> None:
        """Stop reporting lost members: they may have come back on a connection whose frames were missed."""
        if self._may_have_lost_members:  # there can be thousands of gaps in a second
            for group in self:
                for lane in group.lanes_in_state(MembershipState.LOST):
                    lane.end_reason = ""
        self._may_have_lost_members = False

    def on_finding(self, connection_id: str, finding: GroupFinding, row: int, at: int) -> None:
        """Apply a finding without a frame to the groups of its connection that it names, or to its only group."""
        lanes = self._lanes.lanes_of(connection_id)
        named_lanes = [(group, lane) for group, lane in lanes if repr(group.id) in finding.message]
        for group, lane in named_lanes or (lanes if len(lanes) == 1 and finding.code[:1] == "S" else []):
            end_stalls(group, [_finding_stall(finding, lane, row, at)], at)

    def _find_or_add(self, frame: GroupFrame, row: int, at: int) -> GroupHistory | None:
        """Return the group of a frame, marked as the most recently active; None if the frame is not about a group."""
        api = frame.api or ""
        if frame.group_id is None or api not in explanations.EVENT_KINDS:
            return None
        group_id = frame.group_id[:MAX_NAME_LENGTH]
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = GroupHistory(group_id, at, row)
        else:
            self._groups.move_to_end(group_id)
        if (protocol := explanations.PROTOCOLS.get(api)) is not None:
            group.protocol = protocol
        group.last, group.row = at, row
        return group

    def _apply_response(self, group: GroupHistory, lane: Lane, event: Event, frame: GroupResponse, at: int) -> None:
        event.until = at
        if frame.errors and _is_garbled(frame):  # the bytes read as an error may belong to another field
            lifecycle.on_gap(group, lane, at)
            return
        if frame.generation_id is not None and not frame.errors:
            event.generation = frame.generation_id
        if frame.errors:
            error = frame.errors[0].name[:MAX_NAME_LENGTH]
            if error != explanations.NEW_MEMBER_ID:
                group.errors.add(frame.errors)
                lane.errors.add(frame.errors)
                event.severity = "warning" if event.kind is EventKind.COMMIT else _SEVERITIES.get(error, "error")
            event.error = error
        lifecycle.on_response(group, lane, event, frame, at)

    def _add_event(self, group: GroupHistory, lane: Lane, event: Event) -> None:
        """Add an event to its lane, and remove the oldest events if there are too many."""
        events, limit = (
            (lane.recurring, MAX_RECURRING) if event.kind in _RECURRING else (lane.transitions, MAX_TRANSITIONS)
        )
        limit = max(MIN_LANE_EVENTS, min(limit, MAX_EVENTS // max(1, len(self._lanes))))
        events.append(event)
        if len(events) > limit:
            group.events_evicted += len(events) - limit
            del events[:-limit]


def _is_garbled(frame: GroupFrame) -> bool:
    """Whether a layout error makes the values of a frame uncertain."""
    return any(
        finding.code[:1] == "L" and finding.severity == Severity.ERROR
        for findings in (frame.findings, frame.repeats)
        for finding in findings
    )


def _kind_of_epoch(epoch: int | None) -> EventKind:
    """Return what a heartbeat with this epoch does (KIP-848): 0 joins, -1 leaves, -2 leaves temporarily (if static)."""
    if epoch == 0:
        return EventKind.JOIN
    return EventKind.HEARTBEAT if epoch is None or epoch > 0 else EventKind.LEAVE


def _add_findings(
    group: GroupHistory, lane: Lane, event: Event, findings: Sequence[GroupFinding], row: int, at: int
) -> None:
    for finding in findings:
        if RANK.get(finding.severity, 0) > RANK.get(event.severity, -1):
            event.severity = finding.severity
        if RANK.get(finding.severity, 0):
            end_stalls(group, [_finding_stall(finding, lane, row, at)], at)


def _finding_stall(finding: GroupFinding, lane: Lane, row: int, at: int) -> Stall:
    return Stall(
        StallKind.FINDING,
        finding.severity,
        at,
        row,
        printable_text(finding.message),
        printable_text(finding.hint or ""),
        (lane.key,),
        codes=(finding.code,),
    )
