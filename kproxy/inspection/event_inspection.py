"""EventInspection: turns the events of connections into trace lines, with findings and stalls."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from dissectors import rules
from dissectors.collector import collector_disabled, keep_until_exit
from dissectors.connections.events import (
    INCOMPLETE_AFTER,
    BytesSkipped,
    ConnectFailed,
    ConnectionEnded,
    Direction,
    Event,
    FrameIncomplete,
    InspectionFailed,
    ProxyHeaderReceived,
    RecordsDecoded,
    RequestReceived,
    ResponseReceived,
    TokenReceived,
)
from dissectors.failures import Failure
from dissectors.findings import Finding
from dissectors.trackers import Trackers
from dissectors.trackers.advertised_addresses import AdvertisedAddresses
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.brokers import Brokers
from dissectors.trackers.connections_by_client import ConnectionsByClient
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.losses import Losses
from dissectors.trackers.state import ConnectionState, RunState
from kproxy.inspection.event_lines import finding_line, gap_line, repeated_findings, token_line
from kproxy.inspection.frame_lines import FrameLines
from kproxy.inspection.inspected_connection import InspectedConnection, principal
from kproxy.inspection.stall_lines import StallLines
from kproxy.trace.lines import Detail, Line, RequestLine, ResponseLine

if TYPE_CHECKING:
    from dissectors.limits import Values
    from kproxy.inspection.needs import Needs
    from kproxy.inspection.record_budget import RecordBudget
    from kproxy.inspection.record_values import DecodedRecords, RecordValues

#: The deadline for the rest of an incomplete frame.
_REST_OF_FRAME: Final = "rest of frame"

#: The trackers whose state the inspection reads itself.
_TRACKERS: Final = (AdvertisedAddresses, Authentication, Brokers, ConnectionsByClient, InFlight)
#: The trackers that lines need even without findings.
_TRACKERS_OF_LINES: Final = (AdvertisedAddresses, Authentication, Brokers)


class EventInspection:
    """Applies trackers and rules to the events of a run, and makes their lines. No method raises, whatever the event.

    For the arguments, see `kproxy.inspection.inspector.Inspector`.

    Attributes:
        run_state: The state that all connections share.
        frame_lines: Makes the lines of frames.
    """

    def __init__(
        self,
        detail: Detail,
        *,
        excerpts: bool,
        needs: Needs,
        record_values: RecordValues | None,
        withholds_records: bool,
        partial: bool,
        record_budget: RecordBudget | None,
        limits: Values,
    ) -> None:
        if needs.findings:
            _load_rules()
        self.run_state = RunState(rules.trackers(*_TRACKERS) if needs.findings else Trackers(_TRACKERS_OF_LINES))
        self.run_state.limits = limits
        if partial:
            self.run_state.new_causes = []
        self.frame_lines = FrameLines(
            self.run_state,
            detail,
            excerpts=excerpts,
            facts=needs.facts,
            record_values=record_values,
            withholds_records=withholds_records,
            record_budget=record_budget,
        )
        self._reports_findings = needs.findings
        self._follows_groups = needs.findings and not partial
        self._check = rules.check if needs.findings else _check_failures
        self.on_frame: Callable[[int, int], None] | None = None
        self._checks_records = needs.findings and record_values is not None
        self._stall_lines = StallLines()
        if not self._follows_groups:
            self._stall_lines.due = sys.maxsize
        self.is_behind = False  # see `Inspector.is_behind`
        self._deadlines = self.run_state.deadlines
        self._run = ConnectionState(self.run_state)  # for events outside any connection

    def is_due(self, at: int) -> bool:
        """Whether `tick` may return lines at this time."""
        return at >= self._stall_lines.due or at > self._deadlines.due

    def tick(self, *, at: int) -> list[Line]:
        """Advance the time to `at`: report missed deadlines and stalls."""
        if self.is_behind:
            return []
        lines: list[Line] = []
        for connection_state, passed in self._deadlines.pop_passed(at):
            event: Event | None = passed
            if passed.code == _REST_OF_FRAME:
                event = self._incomplete_frame(*passed.about, at=passed.at)
            if event is not None:
                lines += (
                    finding_line(connection_state.connection_id, event, finding, principal(connection_state))
                    for finding in self._check(event, connection_state)
                )
        return lines + self.tick_stalls(at=at) if at >= self._stall_lines.due else lines

    def await_rest(self, state: InspectedConnection, direction: Direction, *, at: int) -> None:
        """Set a deadline for the rest of a direction's last, incomplete frame; `tick` reports if it is missed."""
        state.received_at[direction] = at
        # Later bytes need no new deadline: when it passes, it is set again for them.
        if self._reports_findings and (_REST_OF_FRAME, (state.connection_id, direction)) not in self._deadlines:
            self._expect_rest(state, direction)

    def _expect_rest(self, state: InspectedConnection, direction: Direction) -> None:
        key, deadline = (state.connection_id, direction), state.received_at[direction] + INCOMPLETE_AFTER
        state.connection_state.set_deadline(_REST_OF_FRAME, key, by=deadline, about=(state, direction))

    def _incomplete_frame(self, state: InspectedConnection, direction: Direction, *, at: int) -> FrameIncomplete | None:
        if not state.connection.is_within_frame(direction):
            return None
        if state.received_at[direction] + INCOMPLETE_AFTER > at:
            self._expect_rest(state, direction)
            return None
        return state.connection.incomplete_frame(direction, at=at)

    def lines(self, received: Iterable[tuple[InspectedConnection, Event]]) -> list[Line]:
        """Return the lines of the next events, each given with its connection."""
        lines: list[Line] = []
        deadlines, judge_frame = self._deadlines, self._judge_frame
        for state, event in received:
            if event.at > deadlines.due:  # set by an earlier event in the same data
                lines += self.tick(at=event.at)
            kind = type(event)
            if kind is RequestReceived or kind is ResponseReceived:
                judge_frame(state, event, lines)  # type: ignore[arg-type]
                continue
            connection_state = state.connection_state
            connection_state.observe(event)
            findings = self._check(event, connection_state)
            if isinstance(event, TokenReceived):
                state.frames[event.direction] += 1
                lines.append(token_line(state, event))
            elif isinstance(event, ConnectionEnded):
                for direction in Direction:
                    connection_state.meet_deadline(_REST_OF_FRAME, (state.connection_id, direction))
            elif isinstance(event, BytesSkipped | ProxyHeaderReceived):
                gap = gap_line(state.connection_id, event)
                lines += (gap, *self.observe_stalls(gap, at=event.at))
            lines.extend(finding_line(state.connection_id, event, finding, state.principal) for finding in findings)
        return lines

    def connect_failed(self, failure: ConnectFailed) -> list[Line] | None:
        """Return the findings about a failed connection; None if no response has named its address."""
        brokers, advertised = self.run_state.state(Brokers), self.run_state.state(AdvertisedAddresses)
        address = advertised.find(failure, brokers)
        if address is None:
            return None
        state: ConnectionState = address.connection
        state.observe(failure)
        client_principal = principal(state)
        return [
            finding_line(state.connection_id, failure, finding, client_principal)
            for finding in self._check(failure, state)
        ]

    def failed(self, state: InspectedConnection | None, failure: Failure, *, at: int) -> list[Line]:
        """Report a bug in kproxy, in a connection or outside all connections; once per run."""
        connection_state = self._run if state is None else state.connection_state
        event = InspectionFailed(at, failure)
        findings = rules.check(event, connection_state)
        connection_id, client_principal = connection_state.connection_id, principal(connection_state)
        return [finding_line(connection_id, event, finding, client_principal) for finding in findings]

    def lose_connections(self, *, at: int) -> None:
        """Note that connections were opened and closed without being inspected."""
        if self._reports_findings:
            self.run_state.state(Losses).lose_connections(at)

    def observe_sample(self) -> None:
        """Note that only some connections are inspected."""
        if self._reports_findings:
            self.run_state.state(Losses).observe_sample()

    def observe_stalls(self, line: Line, *, at: int) -> list[Line]:
        """Apply a group's frame, a gap or the end of a connection; return the lines of stalls that it ends."""
        return self._step_stalls(self._stall_lines.observe, line, at=at)

    def tick_stalls(self, *, at: int) -> list[Line]:
        """Return the lines of ongoing stalls."""
        return [] if self.is_behind else self._step_stalls(self._stall_lines.tick, at=at)

    def end_stalls(self, *, at: int) -> list[Line]:
        """Return the lines of stalls that are still ongoing at the end."""
        return self._step_stalls(self._stall_lines.end, at=at)

    def _step_stalls(self, method: Callable[..., list[Line]], *line: Line, at: int) -> list[Line]:
        if not self._follows_groups:
            return []
        try:
            return method(*line, at=at)
        except Exception as error:  # noqa: BLE001
            self._stall_lines = StallLines()
            return self.failed(None, Failure.of("following a group", error), at=at)

    def _judge_frame(
        self, state: InspectedConnection, event: RequestReceived | ResponseReceived, lines: list[Line]
    ) -> None:
        message, connection_state = event.message, state.connection_state
        if message is not None and self.on_frame is not None:
            self.on_frame(state.number, message.api_key)
        findings: list[Finding] = []
        decoded: DecodedRecords | None = None
        if message is None or not message.head_only:  # no tracker observes APIs of which only the header is read
            connection_state.observe(event)
            findings = self._check(event, connection_state)
            if self._checks_records:
                decoded, record_findings = self._check_records(event, connection_state)
                findings += record_findings
        is_request = type(event) is RequestReceived
        state.frames[not is_request] += 1
        make_line: Callable[..., RequestLine | ResponseLine] = self.frame_lines.response
        if is_request:
            make_line = self.frame_lines.request
        try:
            line = make_line(state, event, findings, decoded)
        except Exception as error:  # noqa: BLE001
            failure = Failure.of("writing a frame's line", error)
            connection_state.failures.append(failure)
            findings += rules.failure_findings(event, connection_state)
            if event.message is not None:
                event.message = event.message.without_body(failure)
            line = make_line(state, event, findings)
        if connection_state.repeats:
            line.repeats = repeated_findings(connection_state.repeats, line)
            connection_state.repeats.clear()
        lines.append(line)
        if line.group_id is not None or line.not_decoded is not None:
            lines += self._step_stalls(self._stall_lines.observe, line, at=event.at)

    def _check_records(
        self, event: RequestReceived | ResponseReceived, connection_state: ConnectionState
    ) -> tuple[DecodedRecords | None, list[Finding]]:
        """Return the decoded records of a frame, and the findings about them."""
        try:
            decoded = self.frame_lines.decode_records(event)
        except Exception as error:  # noqa: BLE001
            connection_state.failures.append(Failure.of("decoding records", error))
            return None, rules.failure_findings(event, connection_state)
        if decoded is None or not decoded.parts or event.message is None:
            return decoded, []
        records = RecordsDecoded(event.at, event.offset, event.message, decoded.parts)
        connection_state.observe(records)
        return decoded, self._check(records, connection_state)


def _check_failures(event: Event, connection: ConnectionState) -> list[Finding]:
    """Return only the findings about bugs in kproxy."""
    return rules.failure_findings(event, connection) if connection.failures else []


@functools.cache
def _load_rules() -> None:
    """Import all rules. The garbage collector does not traverse them, since they stay until the process ends."""
    with collector_disabled():
        rules.rules()
    keep_until_exit()
