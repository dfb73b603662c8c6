"""The contents of a page: a summary, one row per exchange, and as many fields and bytes as fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kproxy.browse.fields.detail import side
from kproxy.browse.rows.columns import api, what, wrong
from kproxy.browse.rows.exchange import Exchange
from kproxy.browse.rows.index import SEVERITIES, RowState
from kproxy.browse.session import BrowseSession
from kproxy.html.filter_fields import filter_fields
from kproxy.html.packing import Chunks
from kproxy.html.record_values import page_records
from kproxy.html.sides import finding_json, side_json
from kproxy.html.transactions import transactions
from kproxy.trace.encoding import as_mapping
from kproxy.trace.formatting import duration, safe, size
from kproxy.trace.lines import FindingLine, Line
from kproxy.verdict.causes import Causes
from kproxy.verdict.ranking import as_entry, best_first
from kproxy.version import __version__

#: Most characters of a page. Rows are added up to this size, then fields and bytes as far as they fit.
MOST_SIZE = 20_000_000

#: Most causes in the summary.
MOST_CAUSES = 50

_NARROW = "narrow it with -f, e.g. -f 'severity>=warning'"


def contents(session: BrowseSession, names: list[str]) -> dict[str, Any]:
    """Return the data of a page.

    Returns:
        ``rows``, ``lines`` and ``sides`` are compressed chunks (`kproxy.html.packing`). A row is ``[time, connection,
        client, API, version, subject, size, latency, [[text, style]...], severity, is it an event]``; ``lines`` has for
        each row ``{"lines", "findings"}``, with a list of findings for each line; ``sides`` has pairs of request and
        response as in `kproxy.html.sides`, null if missing; ``places`` has for each row the number of its pair, -1 if
        none. ``transactions`` is in `kproxy.html.transactions`. ``notes`` are sentences about omissions. ``fields``
        and ``units`` belong to the filter language (`kproxy.html.filter_fields`).
    """
    findings = Causes(whole=session.overviews.findings)
    summary = _Summary()
    rows, lines, sides = Chunks(512), Chunks(64), Chunks(16)
    incomplete = 0
    kept: list[int] = []
    for row, exchange in _exchanges(session):
        number = len(kept)
        for line in _lines_of(exchange):
            findings.add(line, number)
        summary.add(exchange)
        if rows.size + lines.size < MOST_SIZE:
            kept.append(row)
            rows.add(_row(session, exchange))
            packed, is_cut = _lines_and_findings(exchange)
            lines.add(packed)
            incomplete += is_cut
    rows.close()
    lines.close()
    numbers = {row: number for number, row in enumerate(kept)}
    places = _add_sides(session, kept, sides, MOST_SIZE - rows.size - lines.size)
    notes = _notes(summary, len(kept), places, incomplete)
    return {
        "version": __version__,
        "files": names,
        "filter": safe(str(session.visible.filter)) if session.visible.filter else None,
        "notes": notes,
        **summary.as_json(),
        "causes": _causes(findings, len(kept)),
        "transactions": transactions(session, numbers),
        "rows": rows.texts,
        "lines": lines.texts,
        "sides": sides.texts,
        "places": places,
        **filter_fields(),
        "each": {"rows": rows.each, "lines": lines.each, "sides": sides.each},
    }


def _exchanges(session: BrowseSession) -> Iterator[tuple[int, Exchange]]:
    for position in range(len(session.visible)):
        row = session.visible[position]
        if (exchange := session.exchange(row)) is not None:
            yield row, exchange


def _lines_of(exchange: Exchange) -> list[Line]:
    return [line for line in (exchange.request, exchange.response, exchange.event) if line is not None]


class _Summary:
    """Totals over all exchanges."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.events = 0
        self._frames = self._bytes = self._refused = self._unanswered = 0
        self._connections: set[str] = set()
        self._first = self._last = ""

    def add(self, exchange: Exchange) -> None:
        for line in _lines_of(exchange):
            self._connections.add(line.connection_id)
            self._first = min(self._first or line.ts, line.ts)
            self._last = max(self._last, line.ts)
        frames = [line for line in (exchange.request, exchange.response) if line is not None]
        self.exchanges += bool(frames)
        self.events += not frames
        self._frames += len(frames)
        self._bytes += sum(frame.size for frame in frames)
        self._refused += exchange.response is not None and bool(exchange.response.errors)
        self._unanswered += exchange.state in (RowState.UNANSWERED, RowState.WAITING)

    def as_json(self) -> dict[str, Any]:
        return {
            "from": self._first,
            "to": self._last,
            "connections": len(self._connections),
            "exchanges": self.exchanges,
            "frames": self._frames,
            "bytes": size(self._bytes),
            "refused": self._refused,
            "unanswered": self._unanswered,
        }


def _row(session: BrowseSession, exchange: Exchange) -> list[Any]:
    index = session.index
    entry = exchange.row - index.first
    line, frame = exchange.line, exchange.frame
    level = SEVERITIES[index.severity[entry]]
    name, *version = (text for text, _ in api(exchange))
    return [
        (exchange.request or line).ts[11:23],
        "#" + safe(line.connection_id.rpartition("-")[2]),
        safe(frame.client_id or "") if frame is not None else "",
        name,
        "".join(version).strip(),
        "".join(text for text, _ in what(exchange)).strip(),
        size(index.size[entry]) if frame is not None else "",
        _latency(session, exchange),
        [[text.strip(), style] for text, style in wrong(exchange, level)],
        level,
        frame is None,
    ]


def _latency(session: BrowseSession, exchange: Exchange) -> str:
    if exchange.state == RowState.ONE_WAY:
        return "no answer"
    if exchange.state == RowState.UNANSWERED:
        return "never"
    waited = duration(session.index.waited(exchange.row, session.now))
    return f"> {waited}" if exchange.state == RowState.WAITING else waited


def _lines_and_findings(exchange: Exchange) -> tuple[dict[str, Any], bool]:
    """Return the lines of an exchange and their findings as text, most severe first; of bodies only decoded records.

    The flag reports whether some of these are left out.
    """
    lines, findings, is_cut = [], [], False
    for line in _lines_of(exchange):
        lines.append({name: value for name, value in as_mapping(line).items() if name not in ("body", "frame")})
        found_records, has_more = page_records(line)
        if found_records:
            lines[-1]["body"] = found_records
        is_cut = is_cut or has_more
        found = [as_entry(line)] if isinstance(line, FindingLine) else best_first(getattr(line, "findings", ()))
        findings.append([finding_json(each) for each in found])
    return {"lines": lines, "findings": findings}, is_cut


def _add_sides(session: BrowseSession, kept: list[int], sides: Chunks, available: int) -> list[int]:
    """Add the sides of these rows as far as they fit, those with findings first; return where each row's sides are."""
    index = session.index
    places = [-1] * len(kept)

    def urgency(number: int) -> tuple[int, int]:
        entry = kept[number] - index.first
        return -2 * index.severity[entry] - index.errors[entry], number

    for number in sorted(range(len(kept)), key=urgency):
        if sides.size > available:
            break
        exchange = session.exchange(kept[number])
        if exchange is None or exchange.frame is None:
            continue
        request, response = exchange.request, exchange.response
        sides_made = [
            None if request is None else side_json(side(request)),
            None if response is None else side_json(side(response, request)),
        ]
        places[number] = sides.add(sides_made)
    sides.close()
    return places


def _notes(summary: _Summary, kept: int, places: list[int], incomplete: int) -> list[str]:
    notes = []
    every = summary.exchanges + summary.events
    if kept < every:
        notes.append(f"this page has only the first {kept:,} of {every:,} rows: {_NARROW}")
    there = sum(place >= 0 for place in places)
    if there < summary.exchanges:
        some = f"{there:,} of {summary.exchanges:,} exchanges, those with findings first"
        notes.append(f"this page has the fields and bytes of only {some}: {_NARROW}")
    if incomplete:
        notes.append(f"the filter of this page has only the first records of {incomplete:,} exchanges: {_NARROW}")
    return notes


def _causes(findings: Causes, kept: int) -> list[dict[str, Any]]:
    """Return the causes, most urgent first, with the row of the first finding, -1 if it is not in the page."""
    return [
        finding_json(cause.finding)
        | {
            "seen": safe(cause.seen),
            "follows": safe(cause.explained_by.finding.code) if cause.explained_by else None,
            "row": cause.first_row if cause.first_row < kept else -1,
            "what": safe(f"{place.api} v{place.api_version} {place.direction}") if place.api else None,
        }
        for cause in findings.sorted_causes()[:MOST_CAUSES]
        for place in (cause.place,)
    ]
