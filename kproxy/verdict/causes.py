"""Collects causes for everything that shows them: reports, summaries, views, the page, metrics."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from functools import cache

from dissectors.bounded import BoundedDict
from kproxy.trace.formatting import RANK
from kproxy.trace.lines import (
    FRAME_LINES,
    CloseLine,
    FindingEntry,
    FindingLine,
    Line,
    OpenLine,
    RepeatedFinding,
    RequestLine,
    ResponseLine,
)
from kproxy.trace.pairing import RequestPairing
from kproxy.verdict.cause import Cause, ConnectionFindings, FindingLocation
from kproxy.verdict.first_findings import FirstFindings
from kproxy.verdict.folding import explain
from kproxy.verdict.lasting_causes import LastingCauses
from kproxy.verdict.ranking import cause_key, finding_entry, urgency, was_served

#: Maximum number of further messages that are kept per cause; they may name other topics or groups.
MAX_SENTENCES = 3
#: Maximum number of APIs with versions that are kept per cause.
MAX_REQUESTS = 20
#: Maximum number of causes that are kept, and how many are dropped at once beyond that.
MAX_CAUSES = 10_000
_DROPPED_AT_ONCE = 1_000
#: Maximum number of connections and groups that are kept for all causes together.
MAX_ENDPOINTS = 100_000
#: Maximum number of requests with findings that are in flight, and of open connections whose addresses are kept.
_MAX_AWAITED = 10_000
_MAX_OPEN = 100_000


class Causes:
    """Collects the causes of findings in one or several inputs, in a running proxy, or in the rows of a view.

    If there are more than `MAX_CAUSES` causes, the least severe are dropped, the least recently seen ones first.

    Args:
        whole: The causes of all lines, which tell which causes last, if this collector gets only some of the lines.

    Attributes:
        files: The names of the inputs.
        others: The number of findings whose causes are not kept.
    """

    def __init__(self, whole: Causes | None = None) -> None:
        self.files: dict[str, None] = {}
        self.others = 0
        self._whole = whole
        self._file = ""
        self._causes_by_rule: dict[str, dict[bytes, Cause]] = {}  # by code and key
        self._cause_count = 0
        self._endpoint_count = 0
        self._unassigned: Counter[str] = Counter()  # by code
        self._endpoints: BoundedDict[str, tuple[str, str]] = BoundedDict(_MAX_OPEN)
        self._first_findings: FirstFindings[Cause] = FirstFindings()
        self._lasting = LastingCauses()
        self._requests: RequestPairing[list[Cause]] = RequestPairing()  # requests with findings
        self._awaited = 0

    def begin(self, file: str) -> None:
        """Begin an input, to which the next lines belong."""
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
                for first_cause, repeat in self._first_findings.repeats_with_causes(line):
                    cause = first_cause or self._cause_elsewhere(repeat, line, row)
                    self._count(cause, line, (line.client, line.server), repeat.count)
            if self._awaited or self._lasting:  # most frames end here
                self.follow(line)
            return
        if isinstance(line, FindingLine):
            self._lasting.begin(self._add_finding(finding_entry(line), line, row), line)
        self.follow(line)
        if isinstance(line, CloseLine):
            self._count_unmarked_repeats(line)

    def follow(self, line: Line) -> None:
        """End the causes that end with a line, without counting its findings.

        For lines that a filter excludes, call only this.
        """
        self._lasting.end(line, is_alone=not self._endpoints)
        if isinstance(line, ResponseLine):
            if self._awaited and (causes := self._requests.match(line)) is not None:
                self._awaited -= 1
                for cause in causes:
                    cause.served += was_served(line)
        elif isinstance(line, OpenLine | CloseLine):
            self._awaited -= len(self._requests.end(line))
            if isinstance(line, OpenLine):
                self._endpoints[line.connection_id] = line.client, line.server
            else:
                self._endpoints.pop(line.connection_id, None)

    def add_waiting(self, request: RequestLine) -> None:
        """Remember a late request to which a running proxy still sees no response.

        The first such request from a client has its own finding (C020); the next ones are only counted when their
        connection ends.
        """
        for cause in self._causes_by_rule.get("C020", {}).values():
            self._lasting.begin_request(cause, request.connection_id, request.offset)

    def _add_finding(self, finding: FindingEntry, line: RequestLine | ResponseLine | FindingLine, row: int) -> Cause:
        location = self._location(line)
        cause = self._find_or_add(finding, location, row, has_frame=not isinstance(line, FindingLine))
        if RANK.get(finding.severity, 0) > RANK.get(cause.finding.severity, 0):
            cause.finding, cause.place = finding, location
        elif finding.message != cause.finding.message and len(cause.sentences) < MAX_SENTENCES:
            cause.sentences[finding.message] = None
        cause.listed += 1
        self._count(cause, line, (location.client, location.server), 1)
        if line.group_id is not None and line.group_id not in cause.groups and self._endpoint_count < MAX_ENDPOINTS:
            self._endpoint_count += 1
            cause.groups.add(line.group_id)
        if isinstance(line, FindingLine) and line.api is not None and len(cause.requests) < MAX_REQUESTS:
            cause.requests.add((line.api, line.api_version))
        self._first_findings.add(finding.code, line, cause)
        return cause

    def first_cause(self, repeat: RepeatedFinding, line: RequestLine | ResponseLine) -> Cause | None:
        """Return the cause of the finding that a frame repeats; None if it is not in the lines so far."""
        return self._first_findings.find(repeat, line)

    def _cause_elsewhere(self, repeat: RepeatedFinding, line: RequestLine | ResponseLine, row: int) -> Cause:
        """Return the cause of a repeat of a finding that is not in the lines of this collector."""
        first = None if self._whole is None else self._whole.first_cause(repeat, line)
        if first is not None:
            return self._find_or_add(first.finding, first.place, first.first_row)
        return self._find_or_add(_finding_of_repeat(repeat, line), self._location(line), row)

    def _find_or_add(
        self, finding: FindingEntry, location: FindingLocation, row: int, *, has_frame: bool = True
    ) -> Cause:
        # One fault may stop requests of several APIs: findings without a frame have one cause for all of them.
        api, version = (location.api, location.api_version) if has_frame else (None, None)
        key = cause_key(finding, api, version, location.direction)
        cause = self.find(finding.code, key)
        if cause is None:
            if self._cause_count >= MAX_CAUSES:
                self._drop_causes()
            cause = self._causes_by_rule.setdefault(finding.code, {})[key] = Cause(
                key, finding, location, row, location.ts, location.ts
            )
            self._cause_count += 1
        return cause

    def _location(self, line: RequestLine | ResponseLine | FindingLine) -> FindingLocation:
        if isinstance(line, FindingLine):
            client, server = self._endpoints.get(line.connection_id, (None, None))
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
        if self.find(cause.finding.code, cause.key) is not cause:  # the cause was dropped
            self.others += count
            return
        cause.count += count
        cause.last_ts = line.ts
        cause.files[self._file] += count
        connection_findings = cause.connections.get(line.connection_id)
        if connection_findings is None:
            if self._endpoint_count >= MAX_ENDPOINTS:
                cause.elsewhere += count
                return
            self._endpoint_count += 1
            connection_findings = cause.connections[line.connection_id] = ConnectionFindings(*endpoints)
        connection_findings.count += count

    def _count_unmarked_repeats(self, line: CloseLine) -> None:
        """Count repeats that no frame has marked: for the cause of their rule if it has one, else as unassigned."""
        for code, count in self._first_findings.unmarked_repeats(line):
            causes = self._causes_by_rule.get(code, {})
            if len(causes) == 1:
                for cause in causes.values():
                    self._count(cause, line, (line.client, line.server), count)
            elif code in self._unassigned or len(self._unassigned) < MAX_CAUSES:
                self._unassigned[code] += count
            else:
                self.others += count

    def _drop_causes(self) -> None:
        least_severe = heapq.nsmallest(
            _DROPPED_AT_ONCE, self._all_causes(), key=lambda cause: (RANK.get(cause.finding.severity, 0), cause.last_ts)
        )
        for cause in least_severe:
            causes = self._causes_by_rule[cause.finding.code]
            del causes[cause.key]
            if not causes:
                del self._causes_by_rule[cause.finding.code]
            self._cause_count -= 1
            self._endpoint_count -= len(cause.connections) + len(cause.groups)
            self.others += cause.count

    def _all_causes(self) -> Iterator[Cause]:
        for causes in self._causes_by_rule.values():
            yield from causes.values()

    def find(self, code: str, key: bytes) -> Cause | None:
        """Return the cause with this code and key, None if it is not kept."""
        return self._causes_by_rule.get(code, {}).get(key)

    def sorted_causes(self) -> list[Cause]:
        """Return all causes, the most urgent first, each followed by its consequences."""
        for cause in self._all_causes():
            cause.consequences.clear()
            cause.explained_by = None
            cause.unassigned = self._unassigned[cause.finding.code]
            if self._whole is not None:
                counterpart = self._whole.find(cause.finding.code, cause.key)
                cause.lasting = 0 if counterpart is None else counterpart.lasting
        explain(sorted(self._all_causes(), key=urgency))
        # A cause lasts as long as its consequences do.
        roots = sorted((cause for cause in self._all_causes() if cause.explained_by is None), key=urgency)
        causes = [cause for root in roots for cause in (root, *root.consequences)]
        for rank, cause in enumerate(causes):
            cause.rank = rank
        return causes

    def verdict(self) -> list[Cause]:
        """Return the root causes, the most urgent first; the other causes are in their `consequences`."""
        return [cause for cause in self.sorted_causes() if cause.explained_by is None]

    def lasting(self) -> Counter[tuple[str, str]]:
        """Return the number of requests and groups that are stopped now, by code and severity of the findings."""
        counts: Counter[tuple[str, str]] = Counter()
        for cause in self._all_causes():
            if cause.lasting:
                counts[cause.finding.code, cause.finding.severity] += cause.lasting
        return counts


@cache
def _rule_names() -> dict[str, str]:
    """Return the name of each rule by its code."""
    from dissectors.rules import rules  # it imports all rules

    return {rule.code: rule.name for rule in rules()}


def _finding_of_repeat(repeat: RepeatedFinding, line: RequestLine | ResponseLine) -> FindingEntry:
    """Return a finding for a repeat whose first finding is in a line that is not here, e.g. in an earlier file."""
    version = "" if line.api_version is None else f" v{line.api_version}"
    direction = "request" if isinstance(line, RequestLine) else "response"
    return FindingEntry(
        repeat.code, _rule_names().get(repeat.code, ""), repeat.severity,
        f"{line.api}{version} {direction}: as in an earlier frame, which is not in this input",
        hint=f"read the trace from its beginning, or the page of the rule: kproxy rules {repeat.code}",
    )  # fmt: skip
