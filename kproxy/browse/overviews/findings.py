"""Findings by rule, by cause and by connection, the worst first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from dissectors.findings import Severity
from kproxy.browse.overviews.causes import CauseConnection, CauseRows, RuleRows
from kproxy.counting.bounded_dict import Recent
from kproxy.outputs.findings import as_entry, cause_of, urgency, was_served
from kproxy.outputs.reports.causes import MAX_SENTENCES
from kproxy.trace.formatting import RANK
from kproxy.trace.lines import CloseLine, FindingEntry, FindingLine, Line, OpenLine, RequestLine, ResponseLine

#: Causes that are listed, and how many are let go at once when there are more.
MOST = 10_000
_AT_ONCE = 1_000
#: Pairs of cause and connection that are listed, and of rule and connection whose repeats are.
MOST_PLACES = 100_000
#: Requests with a finding whose response is waited for.
_MOST_ASKED = 10_000
#: Open connections of which is known between whom they are.
_MOST_ENDS = 10_000


@dataclass(slots=True)
class _Place:
    """What is known of a cause, or of the repeats of a rule, on a connection."""

    client: str | None
    server: str | None
    first_row: int
    first_at: int
    last_row: int
    last_at: int
    count: int = 0


@dataclass(slots=True)
class _Cause:
    """What is known of a cause; `told` of its findings are in the trace, `served` of them in requests that worked."""

    key: bytes
    finding: FindingEntry
    api: str | None
    api_version: int | None
    direction: str | None
    first_row: int
    first_at: int
    last_row: int
    last_at: int
    told: int = 0
    served: int = 0
    elsewhere: int = 0
    sentences: dict[str, None] = field(default_factory=dict)
    places: dict[str, _Place] = field(default_factory=dict)


@dataclass(slots=True)
class _Repeats:
    """Findings of a rule that connections counted when they ended."""

    name: str
    elsewhere: int = 0
    places: dict[str, _Place] = field(default_factory=dict)


class Findings:
    """Takes the lines of a trace; `rules` and `causes` are what is wrong.

    Of more than `MOST` causes the least severe are let go, of these what was not seen for longest; `others` counts
    their findings.
    """

    def __init__(self) -> None:
        self.others = 0
        self._causes: dict[bytes, _Cause] = {}
        self._repeats: dict[str, _Repeats] = {}
        self._places = 0
        self._ends: Recent[str, tuple[str | None, str | None]] = Recent(_MOST_ENDS)
        self._asked: Recent[int, list[_Cause]] = Recent(_MOST_ASKED)
        self._shown: list[RuleRows] | None = None

    def take(self, line: Line, row: int, at: int) -> None:
        """Take the next line; its row in the index, and its time in ns."""
        if isinstance(line, RequestLine):
            if line.findings:
                ends = line.client, line.server
                causes = [self._found(each, line, "request", ends, row, at) for each in line.findings]
                if line.acks != 0:
                    self._asked[row] = causes
        elif isinstance(line, ResponseLine):
            if line.findings:
                ends = line.client, line.server
                for each in line.findings:
                    self._found(each, line, "response", ends, row, at)
            if self._asked and row in self._asked and was_served(line):
                self._served(self._asked.pop(row))
        elif isinstance(line, FindingLine):
            between = self._ends.get(line.connection_id, (None, None))
            self._found(as_entry(line), line, line.direction, between, row, at)
        elif isinstance(line, OpenLine):
            self._ends[line.connection_id] = line.client, line.server
        elif isinstance(line, CloseLine):
            self._ends.pop(line.connection_id, None)
            if line.repeated:
                self._repeated(line, row, at)

    def _found(
        self,
        finding: FindingEntry,
        line: RequestLine | ResponseLine | FindingLine,
        direction: str | None,
        ends: tuple[str | None, str | None],
        row: int,
        at: int,
    ) -> _Cause:
        self._shown = None
        api, version = (None, None) if isinstance(line, FindingLine) else (line.api, line.api_version)
        key = cause_of(finding, api, version, direction)
        cause = self._causes.get(key)
        if cause is None:
            self._make_room()
            cause = self._causes[key] = _Cause(key, finding, api, version, direction, row, at, row, at)
        elif finding.message != cause.finding.message and len(cause.sentences) < MAX_SENTENCES:
            cause.sentences[finding.message] = None
        cause.told += 1
        cause.last_row, cause.last_at = row, at
        cause.elsewhere += not self._count(cause.places, line.connection_id, ends, 1, row, at)
        return cause

    def _count(
        self,
        places: dict[str, _Place],
        connection_id: str,
        ends: tuple[str | None, str | None],
        count: int,
        row: int,
        at: int,
    ) -> bool:
        """There were `count` more on a connection; whether that is listed."""
        place = places.get(connection_id)
        if place is None:
            if self._places == MOST_PLACES:
                return False
            self._places += 1
            place = places[connection_id] = _Place(*ends, row, at, row, at)
        place.count += count
        place.last_row, place.last_at = row, at
        return True

    def _make_room(self) -> None:
        if len(self._causes) < MOST:
            return
        for cause in heapq.nsmallest(
            _AT_ONCE, self._causes.values(), key=lambda cause: (RANK.get(cause.finding.severity, 0), cause.last_row)
        ):
            del self._causes[cause.key]
            self._places -= len(cause.places)
            self.others += cause.told

    def _served(self, causes: Iterable[_Cause]) -> None:
        self._shown = None
        for cause in causes:
            cause.served += 1

    def _repeated(self, line: CloseLine, row: int, at: int) -> None:
        self._shown = None
        ends = line.client, line.server
        for repeat in line.repeated:
            repeats = self._repeats.get(repeat.code)
            if repeats is None:
                if len(self._repeats) == MOST:
                    self.others += repeat.count
                    continue
                repeats = self._repeats[repeat.code] = _Repeats(repeat.name)
            if not self._count(repeats.places, line.connection_id, ends, repeat.count, row, at):
                repeats.elsewhere += repeat.count

    def rules(self) -> list[RuleRows]:
        """What is wrong by rule, the rule with the worst cause first."""
        if self._shown is None:
            causes: dict[str, list[_Cause]] = {code: [] for code in self._repeats}
            for cause in self._causes.values():
                causes.setdefault(cause.finding.code, []).append(cause)
            rules = [_rule(code, each, self._repeats.get(code)) for code, each in causes.items()]
            self._shown = sorted(rules, key=lambda rule: (not rule.causes, *map(_urgency, rule.causes[:1])))
        return self._shown

    def causes(self, most: int | None = None) -> list[CauseRows]:
        """The causes, the worst first; `most` of them at most."""
        return sorted((cause for rule in self.rules() for cause in rule.causes), key=_urgency)[:most]


def _urgency(cause: CauseRows) -> tuple[object, ...]:
    return urgency(cause.finding, cause.count, harmless=cause.harmless)


def _rule(code: str, causes: list[_Cause], repeats: _Repeats | None) -> RuleRows:
    if len(causes) == 1:
        only = _row(causes[0], repeats, 0)
        return RuleRows(code, only.finding.name, only.finding.severity, only.count, 0, (only,))
    repeated = _count(repeats)
    rows = sorted((_row(cause, None, repeated) for cause in causes), key=_urgency)
    name, severity = (
        (rows[0].finding.name, rows[0].finding.severity) if rows else (repeats.name if repeats else "", _usual(code))
    )
    return RuleRows(code, name, severity, sum(row.count for row in rows) + repeated, repeated, tuple(rows))


def _row(cause: _Cause, repeats: _Repeats | None, unassigned: int) -> CauseRows:
    """A cause; `repeats` can only be of it."""
    again = dict(repeats.places) if repeats else {}
    places = [
        _shown(connection_id, place, again.pop(connection_id, None)) for connection_id, place in cause.places.items()
    ]
    places += [_shown(connection_id, place, None) for connection_id, place in again.items()]
    return CauseRows(
        finding=cause.finding,
        api=cause.api,
        api_version=cause.api_version,
        direction=cause.direction,
        count=cause.told + _count(repeats),
        unassigned=unassigned,
        harmless=cause.served == cause.told,
        sentences=tuple(cause.sentences),
        places=tuple(places),
        elsewhere=cause.elsewhere + (repeats.elsewhere if repeats else 0),
        first_row=cause.first_row,
        last_row=cause.last_row,
        first_at=cause.first_at,
        last_at=cause.last_at,
    )


def _shown(connection_id: str, place: _Place, again: _Place | None) -> CauseConnection:
    return CauseConnection(
        connection_id, place.client, place.server, place.count + (again.count if again else 0),
        place.first_row, place.last_row, place.first_at, place.last_at,
    )  # fmt: skip


def _count(repeats: _Repeats | None) -> int:
    """How many findings were only counted."""
    return sum(place.count for place in repeats.places.values()) + repeats.elsewhere if repeats else 0


def _usual(code: str) -> str:
    """The severity that a rule has, where no finding of it tells."""
    from kproxy.outputs.rulebook import entries  # it reads every rule

    return next((entry.severity for entry in entries() if entry.code == code), Severity.INFO.value)
