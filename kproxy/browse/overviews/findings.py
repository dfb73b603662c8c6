"""Findings by rule, root cause and connection, most severe first."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from dissectors.bounded import Recent
from dissectors.findings import Severity
from kproxy.browse.overviews.causes import CauseConnection, CauseRows, RuleRows
from kproxy.trace.formatting import RANK
from kproxy.trace.lines import CloseLine, FindingEntry, FindingLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.verdict.causes import MAX_SENTENCES
from kproxy.verdict.first_findings import FirstFindings
from kproxy.verdict.folding import folded
from kproxy.verdict.ranking import as_entry, cause_of, urgency, was_served

#: Most causes that are listed, and how many are dropped at once beyond that.
MOST = 10_000
_AT_ONCE = 1_000
#: Most pairs of cause and connection, and of rule and connection with repeats, that are listed.
MOST_PLACES = 100_000
#: Most requests with a finding whose response is awaited.
_MOST_AWAITING = 10_000
#: Most open connections whose addresses are kept.
_MOST_ADDRESSES = 10_000


@dataclass(slots=True)
class _Place:
    """A cause, or the repeats of a rule, on one connection."""

    client: str | None
    server: str | None
    first_row: int
    first_at: int
    last_row: int
    last_at: int
    count: int = 0


@dataclass(slots=True)
class _Cause:
    """The state of a cause: `reported` counts its findings in the trace, `served` those in requests that succeeded.

    `repeated` counts the frames' marks that refer to one of these findings.
    """

    key: bytes
    finding: FindingEntry
    api: str | None
    api_version: int | None
    direction: str | None
    first_row: int
    first_at: int
    last_row: int
    last_at: int
    reported: int = 0
    repeated: int = 0
    groups: set[str] = field(default_factory=set)
    served: int = 0
    elsewhere: int = 0
    sentences: dict[str, None] = field(default_factory=dict)
    places: dict[str, _Place] = field(default_factory=dict)


@dataclass(slots=True)
class _Repeats:
    """Repeats of a rule that connections counted until they ended."""

    name: str
    elsewhere: int = 0
    places: dict[str, _Place] = field(default_factory=dict)


class Findings:
    """Collects the findings in the lines of a trace.

    Of more than `MOST` causes, the least severe are dropped, the least recently seen first; `others` counts their
    findings.
    """

    def __init__(self) -> None:
        self.others = 0
        self._causes: dict[bytes, _Cause] = {}
        self._repeats: dict[str, _Repeats] = {}
        self._places = 0
        self._addresses: Recent[str, tuple[str | None, str | None]] = Recent(_MOST_ADDRESSES)
        self._awaiting_response: Recent[int, list[_Cause]] = Recent(_MOST_AWAITING)
        self._first: FirstFindings[_Cause] = FirstFindings()
        self._rules_cache: list[RuleRows] | None = None

    def observe(self, line: Line, row: int, at: int, requests: Collection[int]) -> None:
        """Process the next line, given its row in the index, its time in ns, and the requests that it is about."""
        if isinstance(line, RequestLine):
            if line.findings:
                addresses = line.client, line.server
                causes = [self._add_finding(each, line, "request", addresses, row, at) for each in line.findings]
                for request in requests:
                    self._awaiting_response[request] = causes
            if line.repeats:
                self._add_repeats_of_frame(line, row, at)
        elif isinstance(line, ResponseLine):
            if line.findings:
                addresses = line.client, line.server
                for each in line.findings:
                    self._add_finding(each, line, "response", addresses, row, at)
            if line.repeats:
                self._add_repeats_of_frame(line, row, at)
            if self._awaiting_response and was_served(line):
                for request in requests:
                    self._mark_served(self._awaiting_response.pop(request, ()))
        elif isinstance(line, FindingLine):
            between = self._addresses.get(line.connection_id, (None, None))
            self._add_finding(as_entry(line), line, line.direction, between, row, at)
        elif isinstance(line, OpenLine):
            self._addresses[line.connection_id] = line.client, line.server
        elif isinstance(line, CloseLine):
            self._addresses.pop(line.connection_id, None)
            if line.repeated:
                self._add_repeats(line, row, at)

    def _add_finding(
        self,
        finding: FindingEntry,
        line: RequestLine | ResponseLine | FindingLine,
        direction: str | None,
        addresses: tuple[str | None, str | None],
        row: int,
        at: int,
    ) -> _Cause:
        self._rules_cache = None
        api, version = (None, None) if isinstance(line, FindingLine) else (line.api, line.api_version)
        key = cause_of(finding, api, version, direction)
        cause = self._causes.get(key)
        if cause is None:
            self._drop_causes()
            cause = self._causes[key] = _Cause(key, finding, api, version, direction, row, at, row, at)
        elif finding.message != cause.finding.message and len(cause.sentences) < MAX_SENTENCES:
            cause.sentences[finding.message] = None
        elif RANK.get(finding.severity, 0) > RANK.get(cause.finding.severity, 0):
            cause.finding = finding
        cause.reported += 1
        if line.group_id is not None and len(cause.groups) < MOST_PLACES:
            cause.groups.add(line.group_id)
        self._first.add(finding.code, line, cause)
        cause.last_row, cause.last_at = row, at
        cause.elsewhere += not self._count(cause.places, line.connection_id, addresses, 1, row, at)
        return cause

    def _count(
        self,
        places: dict[str, _Place],
        connection_id: str,
        addresses: tuple[str | None, str | None],
        count: int,
        row: int,
        at: int,
    ) -> bool:
        """Add `count` findings on a connection; return whether the connection is listed."""
        place = places.get(connection_id)
        if place is None:
            if self._places == MOST_PLACES:
                return False
            self._places += 1
            place = places[connection_id] = _Place(*addresses, row, at, row, at)
        place.count += count
        place.last_row, place.last_at = row, at
        return True

    def _drop_causes(self) -> None:
        if len(self._causes) < MOST:
            return
        for cause in heapq.nsmallest(
            _AT_ONCE, self._causes.values(), key=lambda cause: (RANK.get(cause.finding.severity, 0), cause.last_row)
        ):
            del self._causes[cause.key]
            self._places -= len(cause.places)
            self.others += cause.reported + cause.repeated

    def _mark_served(self, causes: Iterable[_Cause]) -> None:
        self._rules_cache = None
        for cause in causes:
            cause.served += 1

    def _add_repeats_of_frame(self, line: RequestLine | ResponseLine, row: int, at: int) -> None:
        addresses = line.client, line.server
        for cause, repeat in self._first.repeated(line):
            self._rules_cache = None
            cause.repeated += repeat.count
            cause.last_row, cause.last_at = row, at
            if not self._count(cause.places, line.connection_id, addresses, repeat.count, row, at):
                cause.elsewhere += repeat.count

    def _add_repeats(self, line: CloseLine, row: int, at: int) -> None:
        self._rules_cache = None
        addresses = line.client, line.server
        for code, name, count in self._first.unmarked(line):
            repeats = self._repeats.get(code)
            if repeats is None:
                if len(self._repeats) == MOST:
                    self.others += count
                    continue
                repeats = self._repeats[code] = _Repeats(name)
            if not self._count(repeats.places, line.connection_id, addresses, count, row, at):
                repeats.elsewhere += count

    def rules(self) -> list[RuleRows]:
        """Return the findings by rule, the rule with the most severe cause first."""
        if self._rules_cache is None:
            causes: dict[str, list[_Cause]] = {code: [] for code in self._repeats}
            for cause in self._causes.values():
                causes.setdefault(cause.finding.code, []).append(cause)
            rules = [_rule(code, each, self._repeats.get(code)) for code, each in causes.items()]
            self._rules_cache = sorted(rules, key=lambda rule: (not rule.causes, *map(_urgency, rule.causes[:1])))
        return self._rules_cache

    def causes(self, most: int | None = None) -> list[CauseRows]:
        """Return the causes, the most urgent first, each followed by its consequences; at most `most`."""
        ranked = sorted((cause for rule in self.rules() for cause in rule.causes), key=_urgency)
        return [
            cause if explained_by is None else replace(cause, explained_by=explained_by.finding.code)
            for cause, explained_by in folded(ranked)
        ][:most]


def _urgency(cause: CauseRows) -> tuple[object, ...]:
    return urgency(cause.finding, cause.count, harmless=cause.harmless)


def _rule(code: str, causes: list[_Cause], repeats: _Repeats | None) -> RuleRows:
    if len(causes) == 1:
        only = _row(causes[0], repeats, 0)
        return RuleRows(code, only.finding.name, only.finding.severity, only.count, 0, (only,))
    repeated = _count(repeats)
    rows = sorted((_row(cause, None, repeated) for cause in causes), key=_urgency)
    name, severity = (
        (rows[0].finding.name, rows[0].finding.severity)
        if rows
        else (repeats.name if repeats else "", _default_severity(code))
    )
    return RuleRows(code, name, severity, sum(row.count for row in rows) + repeated, repeated, tuple(rows))


def _row(cause: _Cause, repeats: _Repeats | None, unassigned: int) -> CauseRows:
    """Return a cause; `repeats` is given if they can only be of this cause."""
    repeats_by_connection = dict(repeats.places) if repeats else {}
    places = [
        _place_row(connection_id, place, repeats_by_connection.pop(connection_id, None))
        for connection_id, place in cause.places.items()
    ]
    places += [_place_row(connection_id, place, None) for connection_id, place in repeats_by_connection.items()]
    return CauseRows(
        finding=cause.finding,
        api=cause.api,
        api_version=cause.api_version,
        direction=cause.direction,
        count=cause.reported + cause.repeated + _count(repeats),
        unassigned=unassigned,
        harmless=cause.served == cause.reported,
        sentences=tuple(cause.sentences),
        places=tuple(places),
        groups=frozenset(cause.groups),
        elsewhere=cause.elsewhere + (repeats.elsewhere if repeats else 0),
        first_row=cause.first_row,
        last_row=cause.last_row,
        first_at=cause.first_at,
        last_at=cause.last_at,
    )


def _place_row(connection_id: str, place: _Place, repeats: _Place | None) -> CauseConnection:
    return CauseConnection(
        connection_id, place.client, place.server, place.count + (repeats.count if repeats else 0),
        place.first_row, place.last_row, place.first_at, place.last_at,
    )  # fmt: skip


def _count(repeats: _Repeats | None) -> int:
    """Return the number of repeats."""
    return sum(place.count for place in repeats.places.values()) + repeats.elsewhere if repeats else 0


def _default_severity(code: str) -> str:
    """Return a rule's default severity, used if no finding of it is in the trace."""
    from kproxy.outputs.rulebook import entries  # imported late: it loads every rule

    return next((entry.severity for entry in entries() if entry.code == code), Severity.INFO.value)
