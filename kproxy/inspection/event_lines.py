"""Trace lines for everything except decoded frames: findings, gaps, SASL tokens, ends of connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dissectors import rules
from dissectors.connections.events import (
    BytesSkipped,
    ConnectFailure,
    ConnectionEnded,
    Direction,
    Event,
    InspectionFailed,
    ProxyHeaderReceived,
    TokenReceived,
)
from dissectors.failures import Failure
from dissectors.findings import Finding
from dissectors.groups.events import GroupStalled
from dissectors.trackers.state import ConnectionState, Repeat
from kproxy.inspection.inspected_connection import InspectedConnection
from kproxy.trace.lines import (
    FORMAT,
    CloseLine,
    EditEntry,
    ExcerptEntry,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    OpenLine,
    RepeatedFinding,
    RepeatEntry,
    RequestLine,
    ResponseLine,
)
from kproxy.trace.timestamps import timestamp

#: An excerpt consists of at most `MAX_ROWS` rows of this many bytes.
ROW_BYTES = 16
MAX_ROWS = 3

_DIRECTION_NAMES = ("request", "response")


class ConnectionEnds(Protocol):
    """The connection of a frame, as its line describes it."""

    connection_id: str
    client: str
    server: str

    @property
    def principal(self) -> str | None:
        """The principal that the client has logged in as."""


def finding_entry(finding: Finding, frame: bytes | None = None) -> FindingEntry:
    """Return a finding as an entry of a trace line. With `frame`, whose secrets are zeroed, it has an excerpt."""
    problem = finding.problem
    entry = FindingEntry(
        finding.code,
        finding.name,
        finding.severity.value,
        problem.message,
        blame=problem.blame or finding.blame,
        path=problem.path,
        hint=problem.hint,
        expected=problem.expected,
        got=problem.got,
    )
    if problem.start is not None and problem.end is not None:
        entry.span = problem.start, problem.end
        if frame is not None:
            entry.excerpt = excerpt(frame, problem.start, problem.end)
    if (diagnosis := problem.diagnosis) is not None:
        entry.edit = _edit_entry(diagnosis.edit.as_json())
        entry.confidence = diagnosis.confidence
        entry.also = [_edit_entry(edit.as_json()) for edit in diagnosis.also]
        entry.rivals = [_edit_entry(rival.edit.as_json(), rival.confidence) for rival in diagnosis.rivals]
    return entry


def repeated_findings(repeats: Mapping[Repeat, int], line: RequestLine | ResponseLine) -> list[RepeatedFinding]:
    """Return the repeated findings of a frame as entries of its line."""
    is_request = isinstance(line, RequestLine)
    return [
        RepeatedFinding(
            code,
            severity,
            None if first.connection_id == line.connection_id else first.connection_id,
            None if first.is_request in (is_request, None) else _DIRECTION_NAMES[not first.is_request],
            first.offset,
            count,
        )
        for (code, severity, first), count in repeats.items()
    ]


def _edit_entry(edit: dict[str, Any], confidence: float | None = None) -> EditEntry:
    next_edit = edit.get("then")
    return EditEntry(
        edit["kind"], edit["field"], edit["detail"], confidence, _edit_entry(next_edit) if next_edit else None
    )


def excerpt(frame: bytes, start: int, end: int) -> ExcerptEntry | None:
    """Return the rows of `frame` from the start of a span, plus neighboring rows if there is room."""
    first = min(start, max(len(frame) - 1, 0)) // ROW_BYTES
    last = min(max(end - 1, start) // ROW_BYTES, first + MAX_ROWS - 1)
    if last - first + 1 < MAX_ROWS and first > 0:
        first -= 1
    if last - first + 1 < MAX_ROWS:
        last += 1
    excerpt_bytes = frame[first * ROW_BYTES : (last + 1) * ROW_BYTES]
    return ExcerptEntry(first * ROW_BYTES, excerpt_bytes.hex()) if excerpt_bytes else None


def finding_line(
    connection_id: str, event: Event | GroupStalled, finding: Finding, principal: str | None = None
) -> FindingLine:
    """Return the line of a finding that is not tied to one frame. The client has logged in as `principal`."""
    problem = finding.problem
    direction, offset = getattr(event, "direction", None), getattr(event, "offset", None)
    request = problem.request
    if request is not None:
        direction, offset = Direction.REQUEST, request.offset
    return FindingLine(
        v=FORMAT,
        ts=timestamp(event.at),
        connection_id=connection_id,
        code=finding.code,
        name=finding.name,
        severity=finding.severity.value,
        message=problem.message,
        blame=problem.blame or finding.blame,
        hint=problem.hint,
        expected=problem.expected,
        got=problem.got,
        direction=None if direction is None else _DIRECTION_NAMES[direction],
        offset=offset,
        api=None if request is None else request.api,
        api_version=None if request is None else request.version,
        correlation_id=None if request is None else request.correlation_id,
        principal=principal,
    )


def failure_line(line: Line, failure: Failure) -> FindingLine:
    """Return the finding about an inspection step that failed at this line."""
    line_of_failure = finding_line(line.connection_id, *_failure_event(failure))
    line_of_failure.ts = line.ts
    return line_of_failure


def failure_entry(failure: Failure) -> FindingEntry:
    """Return the finding about an inspection step that failed at a frame."""
    return finding_entry(_failure_event(failure)[1])


def _failure_event(failure: Failure) -> tuple[InspectionFailed, Finding]:
    event = InspectionFailed(0, failure)
    [finding] = rules.check(event, ConnectionState())
    return event, finding


def gap_line(connection_id: str, event: BytesSkipped | ProxyHeaderReceived) -> GapLine:
    """Return a line for bytes without a frame, or with frames that were not inspected."""
    if isinstance(event, BytesSkipped):
        direction, frames, reason = _DIRECTION_NAMES[event.direction], event.frames, event.reason
    else:
        direction, frames, reason = "request", 0, f"PROXY protocol header, version {event.version}"
    return GapLine(
        v=FORMAT,
        ts=timestamp(event.at),
        connection_id=connection_id,
        direction=direction,
        bytes=event.size,
        frames=frames,
        reason=reason,
    )


def not_connected_lines(
    connection_id: str, client: str, server: str, *, since: int, at: int, how: str
) -> tuple[OpenLine, CloseLine]:
    """Return lines for a connection that was never established: attempted since `since`, given up at `at` (ns)."""
    opened = OpenLine(v=FORMAT, ts=timestamp(since), connection_id=connection_id, client=client, server=server)
    by = "server" if how == ConnectFailure.REFUSED else None
    return opened, CloseLine(
        v=FORMAT, ts=timestamp(at), connection_id=connection_id, client=client, server=server, by=by, how=str(how)
    )


def close_line(state: InspectedConnection, ended: ConnectionEnded) -> CloseLine:
    """Return the line about the end of a connection."""
    return CloseLine(
        v=FORMAT,
        ts=timestamp(ended.at),
        connection_id=state.connection_id,
        client=state.client,
        server=state.server,
        principal=state.principal,
        by=ended.by,
        how=ended.how,
        request_bytes=state.bytes[0],
        response_bytes=state.bytes[1],
        requests=state.frames[0],
        responses=state.frames[1],
        unanswered=len(ended.unanswered),
        repeated=[
            RepeatEntry(*code_and_name, count)
            for code_and_name, count in sorted(state.connection_state.repeated.items())
        ],
    )


def token_line(ends: ConnectionEnds, event: TokenReceived) -> RequestLine | ResponseLine:
    """Return the line of a SASL token: its size and the principal, but not its content."""
    line_type = RequestLine if event.direction is Direction.REQUEST else ResponseLine
    return line_type(
        v=FORMAT,
        ts=timestamp(event.at),
        connection_id=ends.connection_id,
        client=ends.client,
        server=ends.server,
        principal=ends.principal,
        size=event.size + 4,
        offset=event.offset,
        not_decoded="SASL token outside Kafka's framing (SaslHandshake v0): withheld",
    )
