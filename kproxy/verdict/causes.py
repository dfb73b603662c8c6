"""Findings by cause: the first finding of each, their number, the connections, and whether it lasts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from dissectors.bounded import BoundedDict
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
#: Limit of what a running proxy keeps.
MAX_CAUSES = 10_000
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

    `listed` counts findings in lines, `served` those in requests that succeeded. `unassigned` counts repeats of the
    same rule that may have this cause or another one. `lasting` are the requests and groups that it stops now.
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
    lasting: set[tuple[str, ...]] = field(default_factory=set)
    consequences: list[Cause] = field(default_factory=list)

    @property
    def scope(self) -> set[str]:
        """The connections and groups with findings of this cause."""
        return self.connections | self.groups

    def add(self, count: int, connection_id: str, file: str) -> None:
        """Count `count` further findings."""
        self.count += count
        self.connections.add(connection_id)
        self.files[file] += count


class Causes:
    """Collects the causes of findings in one or several inputs, or of a running proxy."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self._file = ""
        self._causes: dict[bytes, Cause] = {}
        self._ends: dict[str, tuple[str, str]] = {}
        self._repeated: Counter[tuple[str, str, str]] = Counter()  # by code, connection, file; unmarked ones
        self._first: FirstFindings[Cause] = FirstFindings()
        self._lasting: BoundedDict[tuple[str, ...], list[Cause]] = BoundedDict(MAX_CAUSES)
        self._requests: RequestPairing[list[Cause]] = RequestPairing()  # those with findings

    @property
    def awaits_end(self) -> bool:
        """Whether a later line may end what lasts."""
        return bool(self._lasting)

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
            if self._lasting and line.request_offset is not None:
                self._end("", line.connection_id, str(line.request_offset))
        elif isinstance(line, FindingLine):
            cause = self._add_finding(as_entry(line), line)
            self._begin(cause, line)
        elif isinstance(line, StallLine):
            if line.until is not None:
                self._end(line.group_id, line.connection_id, str(line.request_offset))
        elif isinstance(line, GapLine):
            return
        else:
            self._requests.end(line)
            for key in [key for key in self._lasting if key[:2] == ("", line.connection_id)]:
                self._end(*key)
            if isinstance(line, OpenLine):
                self._ends[line.connection_id] = line.client, line.server
            else:
                self._ends.pop(line.connection_id, None)
                for code, _, count in self._first.unmarked(line):
                    self._repeated[code, line.connection_id, self._file] += count

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
        if line.offset is None or not (line.group_id is not None or line.code in _OF_WAITING):
            return
        key = line.group_id or "", line.connection_id, str(line.offset)
        cause.lasting.add(key)
        self._lasting.setdefault(key, []).append(cause)

    def _end(self, *key: str) -> None:
        for cause in self._lasting.pop(key, ()):
            cause.lasting.discard(key)

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
            cause.unassigned = 0
        for key, count in list(self._repeated.items()):
            code, connection_id, file = key
            causes = by_code.get(code, [])
            if len(causes) == 1:
                causes[0].add(count, connection_id, file)
                del self._repeated[key]
            else:
                for cause in causes:
                    cause.unassigned += count

    def verdict(self) -> list[Cause]:
        """The causes without those that are consequences of others, which they have as `consequences`."""
        listed = self.sorted_causes()
        consequences = {id(consequence) for cause in listed for consequence in cause.consequences}
        return [cause for cause in listed if id(cause) not in consequences]
