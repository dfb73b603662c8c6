"""What is no decoded frame as trace lines: findings, gaps, SASL tokens."""

from __future__ import annotations

from dissectors.events import BytesSkipped, Direction, Event, ProxyHeaderReceived, TokenReceived
from dissectors.findings import Finding
from kproxy.trace.clock import timestamp
from kproxy.trace.lines import FORMAT, FindingEntry, FindingLine, GapLine, RequestLine, ResponseLine

_NAMES = ("request", "response")


def finding_entry(finding: Finding) -> FindingEntry:
    """A finding as a trace line carries it."""
    problem = finding.problem
    span = None if problem.start is None or problem.end is None else (problem.start, problem.end)
    return FindingEntry(
        finding.code,
        finding.name,
        finding.severity.value,
        problem.message,
        problem.blame or finding.blame,
        problem.path,
        span,
        problem.hint,
        problem.expected,
        problem.got,
    )


def finding_line(connection_id: str, event: Event, finding: Finding) -> FindingLine:
    """A finding that is not tied to one frame."""
    problem = finding.problem
    direction = getattr(event, "direction", None)
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
        direction=None if direction is None else _NAMES[direction],
        offset=getattr(event, "offset", None),
    )


def gap_line(connection_id: str, event: BytesSkipped | ProxyHeaderReceived) -> GapLine:
    """Bytes that hold no frame, or none that was looked at."""
    if isinstance(event, BytesSkipped):
        direction, frames, reason = _NAMES[event.direction], event.frames, event.reason
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


def token_line(connection_id: str, client: str, server: str, event: TokenReceived) -> RequestLine | ResponseLine:
    """A frame of which nothing but its size is told."""
    kind = RequestLine if event.direction is Direction.REQUEST else ResponseLine
    return kind(
        v=FORMAT,
        ts=timestamp(event.at),
        connection_id=connection_id,
        client=client,
        server=server,
        size=event.size + 4,
        offset=event.offset,
        not_decoded="SASL token outside Kafka's framing (SaslHandshake v0): withheld",
    )
