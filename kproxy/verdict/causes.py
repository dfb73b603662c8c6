"""Findings by cause: the first finding of each, their number, the connections, and whether it lasts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from kproxy.trace.formatting import RANK
from kproxy.trace.lines import (
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    OpenLine,
    RequestLine,
    ResponseLine,
    StallLine,
)
from kproxy.trace.pairing import RequestPairing
from kproxy.verdict.first_findings import FirstFindings
from kproxy.verdict.folding import folded
from kproxy.verdict.ranking import as_entry, cause_of, urgency, was_served

#: Further messages that are kept per cause; they may name other topics or groups.
MAX_SENTENCES = 3
#: Limits of what a running proxy keeps: causes, connections of a cause, and repeats that have no cause yet.
MAX_CAUSES = 10_000
MAX_CONNECTIONS = 100_000
_MAX_REPEATED = 10_000
#: Findings that are over when the request that they are about gets a response.
_OF_WAITING: Final = frozenset({"C004", "C020"})


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
    """Findings with the same cause, represented by the first of the most severe ones.

    Of more than `MAX_CONNECTIONS` connections, the first are kept.

    `listed` counts findings in lines, `served` those in requests that succeeded. `unassigned` counts repeats of the
    same rule that may have this cause or another one. `lasting` counts the requests and groups that it stops now.
    """

    key: bytes
    finding: FindingEntry
    place: FindingPlace
    count: int = 0
    listed: int = 0
    served: int = 0
    connections: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    files: Counter[str] = field(default_factory=Counter)
    sentences: dict[str, None] = field(default_factory=dict)
    unassigned: int = 0
    lasting: int = 0
    consequences: list[Cause] = field(default_factory=list)

    @property
    def scope(self) -> set[str]:
        """The connections and groups with findings of this cause."""
        return self.connections | self.groups

    def add(self, count: int, connection_id: str, file: str) -> None:
        """Count `count` further findings."""
        self.count += count
        if len(self.connections) < MAX_CONNECTIONS:
            self.connections.add(connection_id)
        self.files[file] += count


class Causes:
    """Collects the causes of findings in one or several inputs, or of a running proxy."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self._file = ""
        self._causes: dict[bytes, Cause] = {}
        self._ends: dict[str, tuple[str, str]] = {}
        # Repeats without a mark, by code, connection and file; and those of rules with several causes or none, by code.
        self._repeated: Counter[tuple[str, str, str]] = Counter()
        self._unassigned: Counter[str] = Counter()
        self._first: FirstFindings[Cause] = FirstFindings()
        self._stalls: dict[tuple[str, str, int | None], list[Cause]] = {}  # that last
        self._waiting: dict[str, dict[int, list[Cause]]] = {}  # requests without a response, by connection and offset
        self._requests: RequestPairing[list[Cause]] = RequestPairing()  # those with findings

    def begin(self, file: str) -> None:
        """The next lines belong to this input."""
        self._file = file
        self.files[file] = None

    def add(self, line: Line) -> None:
        """Add one line."""
        if isinstance(line, RequestLine):
            if line.findings:
                causes = [self._add_finding(finding, line) for finding in line.findings]
                self._requests.add(line, causes)
            if line.repeats:
                self._add_repeats(line)
        elif isinstance(line, ResponseLine):
            for finding in line.findings:
                self._add_finding(finding, line)
            if line.repeats:
                self._add_repeats(line)
            for cause in self._requests.match(line) or ():
                cause.served += was_served(line)
            waiting = self._waiting.get(line.connection_id)
            if waiting is not None and line.request_offset is not None:
                for cause in waiting.pop(line.request_offset, ()):
                    cause.lasting -= 1
        elif isinstance(line, FindingLine):
            cause = self._add_finding(as_entry(line), line)
            self._begin(cause, line)
        elif isinstance(line, StallLine):
            if line.until is not None:
                for cause in self._stalls.pop((line.group_id, line.connection_id, line.request_offset), ()):
                    cause.lasting -= 1
        elif isinstance(line, GapLine):
            return
        else:
            self._requests.end(line)
            for causes in self._waiting.pop(line.connection_id, {}).values():
                for cause in causes:
                    cause.lasting -= 1
            if isinstance(line, OpenLine):
                self._ends[line.connection_id] = line.client, line.server
            else:
                self._ends.pop(line.connection_id, None)
                for code, _, count in self._first.unmarked(line):
                    self._repeated[code, line.connection_id, self._file] += count
                if len(self._repeated) > _MAX_REPEATED:
                    self._assign_repeats()

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

    def _add_finding(self, finding: FindingEntry, line: RequestLine | ResponseLine | FindingLine) -> Cause:
        place = self._place(line)
        key = cause_of(finding, place.api, place.api_version, place.direction)
        cause = self._causes.get(key)
        if cause is None:
            cause = Cause(key, finding, place)
            if len(self._causes) < MAX_CAUSES:
                self._causes[key] = cause
        elif RANK.get(finding.severity, 0) > RANK.get(cause.finding.severity, 0):
            cause.finding, cause.place = finding, place
        elif finding.message != cause.finding.message and len(cause.sentences) < MAX_SENTENCES:
            cause.sentences[finding.message] = None
        cause.listed += 1
        cause.add(1, place.connection_id, place.file)
        if line.group_id is not None and len(cause.groups) < MAX_CAUSES:
            cause.groups.add(line.group_id)
        self._first.add(finding.code, line, cause)
        return cause

    def _add_repeats(self, line: RequestLine | ResponseLine) -> None:
        for cause, repeat in self._first.repeated(line):
            cause.add(repeat.count, line.connection_id, self._file)

    def _begin(self, cause: Cause, line: FindingLine) -> None:
        """Remember that a cause lasts until a request is answered, or until the stall of a group ends."""
        if line.group_id is not None:
            if len(self._stalls) < MAX_CAUSES:
                self._stalls.setdefault((line.group_id, line.connection_id, line.offset), []).append(cause)
                cause.lasting += 1
        elif line.code in _OF_WAITING and line.offset is not None and len(self._waiting) < MAX_CAUSES:
            self._waiting.setdefault(line.connection_id, {}).setdefault(line.offset, []).append(cause)
            cause.lasting += 1

    def sorted_causes(self) -> list[Cause]:
        """All causes, the most urgent first, each followed by its consequences."""
        self._assign_repeats()
        ranked = sorted(
            self._causes.values(),
            key=lambda cause: urgency(
                cause.finding, cause.count, harmless=cause.served == cause.listed, lasting=bool(cause.lasting)
            ),
        )
        listed = folded(ranked)
        for cause, _ in listed:
            cause.consequences.clear()
        for cause, explained_by in listed:
            if explained_by is not None:
                explained_by.consequences.append(cause)
        return [cause for cause, _ in listed]

    def _assign_repeats(self) -> None:
        """Add repeats without a mark to the only cause of their rule; if it has several, to none."""
        by_code: dict[str, list[Cause]] = {}
        for cause in self._causes.values():
            by_code.setdefault(cause.finding.code, []).append(cause)
        for (code, connection_id, file), count in self._repeated.items():
            causes = by_code.get(code, ())
            if len(causes) == 1:
                causes[0].add(count, connection_id, file)
            else:
                self._unassigned[code] += count
        self._repeated.clear()
        for code, causes in by_code.items():
            for cause in causes:
                cause.unassigned = self._unassigned[code]

    def verdict(self) -> list[Cause]:
        """The causes without those that are consequences of others, which they have as `consequences`."""
        listed = self.sorted_causes()
        consequences = {id(consequence) for cause in listed for consequence in cause.consequences}
        return [cause for cause in listed if id(cause) not in consequences]
