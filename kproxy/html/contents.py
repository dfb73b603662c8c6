"""The contents of a page: a summary, one row per exchange, tables, and as many fields and bytes as fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from kproxy.browse.pictures.timelines import TIMELINES, timeline_json
from kproxy.browse.rows.exchange import Exchange, lines_of
from kproxy.browse.session import BrowseSession
from kproxy.browse.tables.all_tables import TABLES
from kproxy.browse.tables.table import table_json
from kproxy.html.causes import causes_json
from kproxy.html.chunks import Chunks
from kproxy.html.filter_fields import filter_fields
from kproxy.html.frame_rows import is_unanswered, lines_json, row_json, sides_json
from kproxy.trace.formatting import safe, size
from kproxy.verdict.causes import Causes
from kproxy.version import __version__

#: Maximum number of characters of rows, lines, fields and bytes. Rows are added up to this size, then fields that
#: still fit.
MAX_SIZE = 9_000_000

#: Number of rows of each API and client whose fields come before those of others.
_FIRST_ROWS = 4

#: Rows between two reports of the progress.
_PROGRESS_STEP = 1_000

_NARROW_HINT = "narrow it with -f, e.g. -f 'severity>=warning'"

#: Called with the number of rows done and the total number.
Progress = Callable[[int, int], object]


def contents(session: BrowseSession, names: list[str], progress: Progress = lambda *_: None) -> dict[str, Any]:
    """Return the data of a page.

    Returns:
        ``rows``, ``lines`` and ``sides`` are compressed chunks (`kproxy.html.chunks`). A row and its lines are in
        `kproxy.html.frame_rows`; ``sides`` has pairs of request and response as in `kproxy.html.sides`, null if
        missing; ``places`` has for each row the number of its pair, -1 if none. ``causes`` are in
        `kproxy.html.causes`, ``tables`` in `kproxy.browse.tables`, ``timelines``
        in `kproxy.browse.pictures.timelines`. ``notes`` are sentences about omissions.
        ``fields`` and ``units`` belong to the filter language (`kproxy.html.filter_fields`).
    """
    findings = Causes(whole=session.overviews.findings)
    summary = _Summary()
    rows, lines, sides = Chunks(1024), Chunks(256), Chunks(32)
    incomplete_count = 0
    included_rows: list[int] = []
    total = len(session.visible)
    for done_count, (row, exchange) in enumerate(_exchanges(session)):
        number = len(included_rows)
        for line in lines_of(exchange):
            findings.add(line, row)
        summary.add(exchange)
        if rows.size + lines.size < MAX_SIZE:
            included_rows.append(row)
            rows.add(row_json(session, exchange, number))
            packed_lines, is_cut = lines_json(exchange)
            lines.add(packed_lines)
            incomplete_count += is_cut
        if not done_count % _PROGRESS_STEP:
            progress(done_count, total)
    rows.close()
    lines.close()
    numbers_by_row = {row: number for number, row in enumerate(included_rows)}
    side_numbers = _add_sides(session, included_rows, sides, MAX_SIZE - rows.size - lines.size)
    progress(total, total)
    notes = _notes(summary, len(included_rows), side_numbers, incomplete_count)
    causes = causes_json(findings, session)
    for cause in causes:
        cause["row"] = numbers_by_row.get(cause["row"], -1)
    return {
        "version": __version__,
        "files": names,
        "filter": safe(str(session.visible.filter)) if session.visible.filter else None,
        "notes": notes,
        **summary.as_json(),
        "causes": causes,
        "tables": {name: table_json(build(session, session.view), numbers_by_row) for name, build in TABLES.items()},
        "timelines": {
            name: timeline_json(build(session, session.view), session, numbers_by_row)
            for name, build in TIMELINES.items()
        },
        "rows": rows.texts,
        "lines": lines.texts,
        "sides": sides.texts,
        "places": side_numbers,
        **filter_fields(),
        "each": {"rows": rows.each, "lines": lines.each, "sides": sides.each},
    }


def _exchanges(session: BrowseSession) -> Iterator[tuple[int, Exchange]]:
    for position in range(len(session.visible)):
        row = session.visible[position]
        if (exchange := session.exchange(row)) is not None:
            yield row, exchange


class _Summary:
    """Totals over all exchanges."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.events = 0
        self._frames = self._bytes = self._refused = self._unanswered = 0
        self._connections: set[str] = set()
        self._first = self._last = ""

    def add(self, exchange: Exchange) -> None:
        for line in lines_of(exchange):
            self._connections.add(line.connection_id)
            self._first = min(self._first or line.ts, line.ts)
            self._last = max(self._last, line.ts)
        frames = [line for line in (exchange.request, exchange.response) if line is not None]
        self.exchanges += bool(frames)
        self.events += not frames
        self._frames += len(frames)
        self._bytes += sum(frame.size for frame in frames)
        self._refused += exchange.response is not None and bool(exchange.response.errors)
        self._unanswered += is_unanswered(exchange)

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


def _add_sides(session: BrowseSession, rows: list[int], sides: Chunks, available: int) -> list[int]:
    """Add the sides of these rows as far as they fit; return the number of each row's sides, or -1.

    Rows with findings and errors come first; then the first rows of each API and client, so that even a page with few
    fields has all kinds of frames; then the smallest rows, because most of these fit.
    """
    index = session.index
    side_numbers = [-1] * len(rows)
    kind_counts: Counter[tuple[int, int]] = Counter()
    sort_keys: list[tuple[int, int, int, int]] = []
    for number, row in enumerate(rows):
        entry = row - index.first
        kind = index.api[entry], index.client[entry]
        kind_counts[kind] += 1
        is_later = kind_counts[kind] > _FIRST_ROWS
        later_size = index.size[entry] if is_later else 0
        sort_keys.append((-2 * index.severity[entry] - index.errors[entry], is_later, later_size, number))
    for *_, number in sorted(sort_keys):
        if sides.size > available:
            break
        exchange = session.exchange(rows[number])
        if exchange is not None and (pair := sides_json(exchange)) is not None:
            side_numbers[number] = sides.add(pair)
    sides.close()
    return side_numbers


def _notes(summary: _Summary, count: int, side_numbers: list[int], incomplete: int) -> list[str]:
    notes = []
    total = summary.exchanges + summary.events
    if count < total:
        notes.append(f"this page has only the first {count:,} of {total:,} rows: {_NARROW_HINT}")
    with_sides = sum(side_number >= 0 for side_number in side_numbers)
    if with_sides < summary.exchanges:
        subset = f"{with_sides:,} of {summary.exchanges:,} exchanges, those with findings first"
        notes.append(f"this page has the fields and bytes of only {subset}: {_NARROW_HINT}")
    if incomplete:
        notes.append(f"the filter of this page has only the first records of {incomplete:,} exchanges: {_NARROW_HINT}")
    return notes
