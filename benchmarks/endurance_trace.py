"""Compare the trace of `endurance.py` with its clients' traffic: each frame is present, or its loss is counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dissectors.connections.events import INSPECTOR_WAS_BEHIND, INSPECTOR_WAS_RESTARTED
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.trace.reader import read_trace, trace_files


@dataclass
class TraceComparison:
    """The contents of a trace, and what it lacks.

    Attributes:
        frames: The number of request and response lines.
        in_gaps: Frames that are counted in gap lines of a connection.
        unseen: Frames of whole connections that no inspector saw, as counted in gap lines of the run.
        lost_lines: Lines that could not be written, as counted in gap lines of the run.
        restarts: Restarts of the inspector.
        missing: Frames of clean connections that have neither a line nor a place in the connection's gaps.
        twice: Frames that have both: an inspector was killed after it had written a line but before it recorded that.
        wrong: Clean connections without missing frames whose lines and gaps do not add up to the relayed bytes.
        findings: The number of findings, by rule.
    """

    frames: int = 0
    in_gaps: int = 0
    unseen: int = 0
    lost_lines: int = 0
    restarts: int = 0
    missing: int = 0
    twice: int = 0
    wrong: list[str] = field(default_factory=list)
    findings: Counter[str] = field(default_factory=Counter)

    @property
    def text(self) -> str:
        """All fields except `wrong`, in one line."""
        return ", ".join(f"{name}: {value}" for name, value in vars(self).items() if name != "wrong")

    @property
    def unaccounted(self) -> int:
        """The number of missing frames that no gap line counts."""
        return max(self.missing - self.lost_lines - self.unseen, 0)


@dataclass
class _Client:
    """A connection, with several ids if an inspector was restarted. Counters are by direction."""

    frames: Counter[str] = field(default_factory=Counter)  # including frames in gaps
    bytes: Counter[str] = field(default_factory=Counter)
    relayed: Counter[str] = field(default_factory=Counter)  # bytes, according to close lines
    closed: int = 0
    opened: set[str] = field(default_factory=set)  # ids


def lines_of(directory: Path) -> Iterator[Line]:
    """Yield the lines of all files of a trace.

    Raises:
        AssertionError: A line is damaged.
    """

    def fail(message: str) -> None:
        raise AssertionError(message)

    for path in trace_files(directory):
        with path.open("rb") as file:
            yield from read_trace(file, str(path), fail)


def account(lines: Iterable[Line], clean: Mapping[str, int]) -> TraceComparison:
    """Compare a trace with the numbers of requests on clean connections, by client address; each got a response."""
    comparison = TraceComparison()
    addresses: dict[str, str] = {}  # by connection id
    clients: defaultdict[str, _Client] = defaultdict(_Client)
    gaps: list[GapLine] = []
    for line in lines:
        if isinstance(line, OpenLine | CloseLine | RequestLine | ResponseLine):
            addresses[line.connection_id] = line.client
            client = clients[line.client]
        match line:
            case RequestLine() | ResponseLine():
                direction = "request" if isinstance(line, RequestLine) else "response"
                client.frames[direction] += 1
                client.bytes[direction] += line.size
                comparison.frames += 1
                comparison.findings.update(finding.code for finding in line.findings)
            case GapLine():
                gaps.append(line)
            case CloseLine():
                client.closed += 1
                client.relayed += Counter(request=line.request_bytes, response=line.response_bytes)
            case OpenLine():
                client.opened.add(line.connection_id)
            case FindingLine():
                comparison.findings[line.code] += 1
    for gap in gaps:
        if gap.connection_id:
            client = clients[addresses.get(gap.connection_id, "")]
            client.frames[gap.direction] += gap.frames
            client.bytes[gap.direction] += gap.bytes
            comparison.in_gaps += gap.frames
        elif gap.reason.startswith((INSPECTOR_WAS_BEHIND, INSPECTOR_WAS_RESTARTED)):
            comparison.unseen += gap.frames
            comparison.restarts += "nothing was inspected" in gap.reason
        else:
            comparison.lost_lines += gap.frames
    for address, requests in clean.items():
        _compare(comparison, address, clients[address], requests)
    return comparison


def _compare(comparison: TraceComparison, address: str, client: _Client, requests: int) -> None:
    for direction in ("request", "response"):
        missing = requests - client.frames[direction]
        comparison.missing += max(missing, 0)
        comparison.twice += max(-missing, 0)
        all_closed = client.closed == len(client.opened)
        if missing == 0 and all_closed and client.bytes[direction] != client.relayed[direction]:
            comparison.wrong.append(
                f"{address}: {client.bytes[direction]} of {client.relayed[direction]} bytes ({direction}s)"
            )
