"""Findings by cause: the first finding of each, their number, and the connections."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kproxy.outputs.findings import as_entry, cause_of, urgency, was_served
from kproxy.trace.lines import CloseLine, FindingEntry, FindingLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.trace.pairing import RequestPairing

#: Further messages that are kept per cause; they may name other topics or groups.
MAX_SENTENCES = 3


@dataclass(frozen=True, slots=True)
class FindingPlace:
    """The place of a finding. `offset` is the offset of its frame in its direction of the connection."""

    file: str
    connection_id: str
    ts: str
    client: str | None = None
    server: str | None = None
    direction: str | None = None
    api: str | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    offset: int | None = None


@dataclass(slots=True)
class Cause:
    """Findings with the same cause, represented by the first one.

    `listed` counts findings in lines, `served` those in requests that succeeded. `unassigned` counts repeats of the
    same rule that may have this cause or another one.
    """

    key: bytes
    finding: FindingEntry
    place: FindingPlace
    count: int = 0
    listed: int = 0
    served: int = 0
    connections: set[str] = field(default_factory=set)
    files: Counter[str] = field(default_factory=Counter)
    sentences: dict[str, None] = field(default_factory=dict)
    unassigned: int = 0

    def add(self, count: int, connection_id: str, file: str) -> None:
        """Count `count` further findings."""
        self.count += count
        self.connections.add(connection_id)
        self.files[file] += count


class Causes:
    """Collects the causes of findings in one or several inputs."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self._file = ""
        self._causes: dict[bytes, Cause] = {}
        self._ends: dict[str, tuple[str, str]] = {}
        self._repeated: Counter[tuple[str, str, str]] = Counter()
        self._requests: RequestPairing[list[Cause]] = RequestPairing()  # those with findings

    def begin(self, file: str) -> None:
        """The next lines belong to this input."""
        self._file = file
        self.files[file] = None

    def add(self, line: Line) -> None:
        """Add one line."""
        if isinstance(line, OpenLine):
            self._requests.end(line)
            self._ends[line.connection_id] = line.client, line.server
        elif isinstance(line, CloseLine):
            self._requests.end(line)
            self._ends.pop(line.connection_id, None)
            for repeat in line.repeated:
                self._repeated[repeat.code, line.connection_id, self._file] += repeat.count
        elif isinstance(line, FindingLine):
            self._add_finding(as_entry(line), self._place(line))
        elif isinstance(line, RequestLine):
            causes = [self._add_finding(finding, self._place(line)) for finding in line.findings]
            if causes:
                self._requests.add(line, causes)
        elif isinstance(line, ResponseLine):
            for finding in line.findings:
                self._add_finding(finding, self._place(line))
            for cause in self._requests.match(line) or ():
                cause.served += was_served(line)

    def _place(self, line: RequestLine | ResponseLine | FindingLine) -> FindingPlace:
        if isinstance(line, FindingLine):
            client, server = self._ends.get(line.connection_id, (None, None))
            return FindingPlace(
                self._file, line.connection_id, line.ts, client, server, line.direction,
                correlation_id=line.correlation_id, offset=line.offset,
            )  # fmt: skip
        return FindingPlace(
            self._file, line.connection_id, line.ts, line.client, line.server,
            "request" if isinstance(line, RequestLine) else "response",
            line.api, line.api_version, line.correlation_id, line.offset,
        )  # fmt: skip

    def _add_finding(self, finding: FindingEntry, place: FindingPlace) -> Cause:
        key = cause_of(finding, place.api, place.api_version, place.direction)
        cause = self._causes.get(key)
        if cause is None:
            cause = self._causes[key] = Cause(key, finding, place)
        elif finding.message != cause.finding.message and len(cause.sentences) < MAX_SENTENCES:
            cause.sentences[finding.message] = None
        cause.listed += 1
        cause.add(1, place.connection_id, place.file)
        return cause

    def sorted_causes(self) -> list[Cause]:
        """The causes, the most urgent first. Call it once, at the end."""
        by_code: dict[str, list[Cause]] = {}
        for cause in self._causes.values():
            by_code.setdefault(cause.finding.code, []).append(cause)
        for (code, connection_id, file), count in self._repeated.items():
            causes = by_code.get(code, [])
            if len(causes) == 1:
                causes[0].add(count, connection_id, file)
            for cause in causes if len(causes) > 1 else ():
                cause.unassigned += count
        return sorted(
            self._causes.values(),
            key=lambda cause: urgency(cause.finding, cause.count, harmless=cause.served == cause.listed),
        )
