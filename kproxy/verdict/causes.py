"""The collector of causes, for everything that shows them: reports, summaries, views, the page, metrics."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from kproxy.trace.formatting import RANK
from kproxy.trace.lines import (
    FRAME_LINES,
    CloseLine,
    FindingEntry,
    FindingLine,
    Line,
    OpenLine,
    RequestLine,
    ResponseLine,
)
from kproxy.trace.pairing import RequestPairing
from kproxy.verdict.cause import Cause, ConnectionFindings, FindingLocation
from kproxy.verdict.first_findings import FirstFindings
from kproxy.verdict.folding import explain
from kproxy.verdict.lasting_causes import LastingCauses
from kproxy.verdict.ranking import cause_key, finding_entry, urgency, was_served

#: Further messages that are kept per cause; they may name other topics or groups.
MAX_SENTENCES = 3
#: APIs with versions that are kept per cause.
MAX_REQUESTS = 20
#: Most causes that are kept, and how many are dropped at once beyond that.
MAX_CAUSES = 10_000
_AT_ONCE = 1_000
#: Most connections and groups that are kept, over all causes.
MAX_PLACES = 100_000
#: Most requests with a finding whose response is awaited, and most open connections whose addresses are kept.
_MAX_AWAITED = 10_000
_MAX_OPEN = 100_000


class Causes:
    """Collects the causes of findings in one or several inputs, of a running proxy, or of the rows of a view.

    Of more than `MAX_CAUSES` causes, the least severe are dropped, the least recently seen first.

    Args:
        whole: Has the causes of all lines, if this one gets only some of them; tells which ones last.

    Attributes:
        files: The inputs.
        others: The number of findings whose causes are not kept.
    """

    def __init__(self, whole: Causes | None = None) -> None:
        self.files: dict[str, None] = {}
        self.others = 0
        self._whole = whole
        self._file = ""
        self._by_rule: dict[str, dict[bytes, Cause]] = {}  # by code and key
        self._kept = 0
        self._places = 0
        self._unassigned: Counter[str] = Counter()  # by code
        self._ends: BoundedDict[str, tuple[str, str]] = BoundedDict(_MAX_OPEN)
        self._first: FirstFindings[Cause] = FirstFindings()
        self._lasting = LastingCauses()
        self._requests: RequestPairing[list[Cause]] = RequestPairing()  # those with findings
        self._awaited = 0

    def begin(self, file: str) -> None:
        """The next lines belong to this input."""
        self._lasting.close()
        self._file = file
        self.files[file] = None

    def add(self, line: Line, row: int = 0) -> None:
        """Add one line. `row` is its row in an index."""
        if isinstance(line, FRAME_LINES):
            if line.findings:
                causes = [self._add_finding(finding, line, row) for finding in line.findings]
                if isinstance(line, RequestLine) and self._awaited < _MAX_AWAITED:
                    self._awaited += self._requests.add(line, causes)
            if line.repeats:
                for cause, repeat in self._first.repeated(line):
                    self._count(cause, line, (line.client, line.server), repeat.count)
            if self._awaited or self._lasting:  # most frames end here
                self.follow(line)
            return
        if isinstance(line, FindingLine):
            self._lasting.begin(self._add_finding(finding_entry(line), line, row), line)
        self.follow(line)
        if isinstance(line, CloseLine):
            self._add_unmarked(line)

    def follow(self, line: Line) -> None:
        """Process a line whose findings do not count, because a filter excludes it: what ended or succeeded with it."""
        self._lasting.end(line, is_alone=not self._ends)
        if isinstance(line, ResponseLine):
            if self._awaited and (causes := self._requests.match(line)) is not None:
                self._awaited -= 1
                for cause in causes:
                    cause.served += was_served(line)
        elif isinstance(line, OpenLine | CloseLine):
            self._awaited -= len(self._requests.end(line))
            if isinstance(line, OpenLine):
                self._ends[line.connection_id] = line.client, line.server
            else:
                self._ends.pop(line.connection_id, None)

    def add_waiting(self, request: RequestLine) -> None:
        """A running proxy still sees no response to this request, which is late.

        The first such request of a client has a finding of its own (C020), the next ones are only counted when their
        connection ends.
        """
        for cause in self._by_rule.get("C020", {}).values():
            self._lasting.begin_request(cause, request.connection_id, request.offset)

    def _add_finding(self, finding: FindingEntry, line: RequestLine | ResponseLine | FindingLine, row: int) -> Cause:
        location = self._place(line)
        # One fault stops requests of several APIs: what is reported without a frame is one cause for all of them.
        api, version = (None, None) if isinstance(line, FindingLine) else (location.api, location.api_version)
        key = cause_key(finding, api, version, location.direction)
        cause = self.find(finding.code, key)
        if cause is None:
            if self._kept >= MAX_CAUSES:
                self._drop_causes()
            cause = self._by_rule.setdefault(finding.code, {})[key] = Cause(
                key, finding, location, row, line.ts, line.ts
            )
            self._kept += 1
        elif RANK.get(finding.severity, 0) > RANK.get(cause.finding.severity, 0):
            cause.finding, cause.place = finding, location
        elif finding.message != cause.finding.message and len(cause.sentences) < MAX_SENTENCES:
            cause.sentences[finding.message] = None
        cause.listed += 1
        self._count(cause, line, (location.client, location.server), 1)
        if line.group_id is not None and line.group_id not in cause.groups and self._places < MAX_PLACES:
            self._places += 1
            cause.groups.add(line.group_id)
        if isinstance(line, FindingLine) and line.api is not None and len(cause.requests) < MAX_REQUESTS:
            cause.requests.add((line.api, line.api_version))
        self._first.add(finding.code, line, cause)
        return cause

    def _place(self, line: RequestLine | ResponseLine | FindingLine) -> FindingLocation:
        if isinstance(line, FindingLine):
            client, server = self._ends.get(line.connection_id, (None, None))
            return FindingLocation(
                self._file, line.connection_id, line.ts, client, server, line.direction, line.api, line.api_version,
                correlation_id=line.correlation_id, offset=line.offset,
            )  # fmt: skip
        return FindingLocation(
            self._file, line.connection_id, line.ts, line.client, line.server,
            "request" if isinstance(line, RequestLine) else "response",
            line.api, line.api_version, line.correlation_id, line.offset,
        )  # fmt: skip

    def _count(self, cause: Cause, line: Line, endpoints: tuple[str | None, str | None], count: int) -> None:
        """Count `count` findings of a cause on the connection of a line."""
        if self.find(cause.finding.code, cause.key) is not cause:  # it was dropped
            self.others += count
            return
        cause.count += count
        cause.last_ts = line.ts
        cause.files[self._file] += count
        connection_findings = cause.connections.get(line.connection_id)
        if connection_findings is None:
            if self._places >= MAX_PLACES:
                cause.elsewhere += count
                return
            self._places += 1
            connection_findings = cause.connections[line.connection_id] = ConnectionFindings(*endpoints)
        connection_findings.count += count

    def _add_unmarked(self, line: CloseLine) -> None:
        """Add repeats that no frame has marked to the only cause of their rule so far; if it has several, to none."""
        for code, count in self._first.unmarked(line):
            causes = self._by_rule.get(code, {})
            if len(causes) == 1:
                for cause in causes.values():
                    self._count(cause, line, (line.client, line.server), count)
            elif code in self._unassigned or len(self._unassigned) < MAX_CAUSES:
                self._unassigned[code] += count
            else:
                self.others += count

    def _drop_causes(self) -> None:
        least_severe = heapq.nsmallest(
            _AT_ONCE, self._every(), key=lambda cause: (RANK.get(cause.finding.severity, 0), cause.last_ts)
        )
        for cause in least_severe:
            causes = self._by_rule[cause.finding.code]
            del causes[cause.key]
            if not causes:
                del self._by_rule[cause.finding.code]
            self._kept -= 1
            self._places -= len(cause.connections) + len(cause.groups)
            self.others += cause.count

    def _every(self) -> Iterator[Cause]:
        for causes in self._by_rule.values():
            yield from causes.values()

    def find(self, code: str, key: bytes) -> Cause | None:
        """Return the cause with this code and key, if it is kept."""
        return self._by_rule.get(code, {}).get(key)

    def sorted_causes(self) -> list[Cause]:
        """Return all causes, the most urgent first, each followed by its consequences."""
        for cause in self._every():
            cause.consequences.clear()
            cause.explained_by = None
            cause.unassigned = self._unassigned[cause.finding.code]
            if self._whole is not None:
                counterpart = self._whole.find(cause.finding.code, cause.key)
                cause.lasting = 0 if counterpart is None else counterpart.lasting
        explain(sorted(self._every(), key=urgency))
        # A cause lasts as long as its consequences do.
        roots = sorted((cause for cause in self._every() if cause.explained_by is None), key=urgency)
        causes = [consequence for root in roots for consequence in (root, *root.consequences)]
        for rank, cause in enumerate(causes):
            cause.rank = rank
        return causes

    def verdict(self) -> list[Cause]:
        """Return the causes without those that are consequences of others, which they have as `consequences`."""
        return [cause for cause in self.sorted_causes() if cause.explained_by is None]

    def lasting(self) -> Counter[tuple[str, str]]:
        """Return the number of requests and groups that are stopped now, by code and severity of what was found."""
        counts: Counter[tuple[str, str]] = Counter()
        for cause in self._every():
            if cause.lasting:
                counts[cause.finding.code, cause.finding.severity] += cause.lasting
        return counts
