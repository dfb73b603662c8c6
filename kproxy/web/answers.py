"""The server's answers as JSON values: the session's state, rows, exchanges, tables, causes and records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kproxy.browse.rows.index import RowState
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.sources.source import SourcePhase
from kproxy.browse.tables.all_tables import TABLES
from kproxy.browse.tables.table import table_json
from kproxy.html.causes import causes_json
from kproxy.html.filter_fields import filter_fields
from kproxy.html.frame_rows import lines_json, records_json, row_json, sides_json
from kproxy.html.matching_records import record_test
from kproxy.trace.formatting import safe, size
from kproxy.version import __version__

#: Maximum number of rows, and of records, in one answer.
MAX_ROWS: Final = 500
#: Seconds that a search for records may take; the client then continues it with another request.
_RECORDS_S: Final = 0.2
#: API keys of frames with records: Produce, Fetch, ShareFetch.
_RECORD_API_KEYS: Final = frozenset({0, 1, 78})


def info(filter_text: str) -> dict[str, Any]:
    """Return the values that never change: the version, the filter language, the filter from the command line."""
    return {"version": __version__, "names": [], "notes": [], "filter": filter_text, **filter_fields()}


def state(session: BrowseSession) -> dict[str, Any]:
    """Return the state of the source, and totals. Times are us since the epoch."""
    source, index = session.source, session.index
    apis = session.overviews.apis.rows(session.now)
    events = index.state.count(RowState.EVENT)
    return {
        "name": safe(source.name),
        "rows": len(index.at),
        "connections": len(index.connections),
        "exchanges": len(index.at) - events,
        "frames": sum(api.requests + api.responses for api in apis),
        "bytes": size(sum(api.request_bytes + api.response_bytes for api in apis)),
        "refused": sum(api.refusals for api in apis),
        "unanswered": sum(api.unanswered for api in apis),
        "waiting": index.waiting() if source.live else 0,
        "first": index.at[0] // 1000 if index.at else 0,
        "last": index.latest_at // 1000,
        "live": source.live,
        "reading": source.phase is SourcePhase.READING,
        "percent": source.percent(),
        "sentence": safe(source.sentence or (source.empty_message if not index.at else "")),
        "messages": [safe(message) for message in source.messages],
    }


def rows(session: BrowseSession, view: SessionView, offset: int, limit: int) -> dict[str, Any]:
    """Return the rows of a view, starting at an offset; null for a row whose lines have been discarded."""
    visible = view.visible
    end = min(offset + min(limit, MAX_ROWS), len(visible))
    return {
        "count": len(visible),
        "total": len(session.index.at),
        "busy": _is_growing(session, view),
        "rows": [_row_json(session, visible[position]) for position in range(offset, end)],
    }


def _is_growing(session: BrowseSession, view: SessionView) -> bool:
    """Return whether rows are still being read or filtered."""
    return view.visible.is_behind or session.source.phase is SourcePhase.READING


def _row_json(session: BrowseSession, row: int) -> list[Any] | None:
    exchange = session.exchange(row)
    return None if exchange is None else row_json(session, exchange, row)


def exchange(session: BrowseSession, row: int) -> dict[str, Any] | None:
    """Return an exchange with its lines, fields and bytes; None if it does not exist, or no longer does."""
    exchange = session.exchange(row)
    if exchange is None:
        return None
    lines, _ = lines_json(exchange)
    return {"row": row_json(session, exchange, row), **lines, "sides": sides_json(exchange), "missing": ""}


def position(view: SessionView, row: int) -> int:
    """Return the position of a row in a view, -1 if it is hidden."""
    return view.visible.position(row) if view.visible.has(row) else -1


def causes(session: BrowseSession, view: SessionView) -> list[dict[str, Any]]:
    """Return the ranked causes in the rows of a view."""
    matching = view.matching
    return causes_json(session.overviews.findings if matching is None else matching.findings, session)


def table(session: BrowseSession, view: SessionView, name: str) -> dict[str, Any] | None:
    """Return a table, `busy` as long as rows are being read or filtered; None if no table has the name."""
    build_table = TABLES.get(name)
    if build_table is None:
        return None
    return {**table_json(build_table(session, view)), "busy": _is_growing(session, view)}


def records(session: BrowseSession, view: SessionView, start: int, max_records: int) -> dict[str, Any]:
    """Return records from the rows of a view, starting at a position; with a filter, those that match it themselves.

    ``exchanges`` are pairs of a row and its records; ``next`` is the position to continue at, null at the end. It is
    not null, even without further rows, as long as rows are being read or filtered.
    """
    visible, index = view.visible, session.index
    deadline = time.perf_counter() + _RECORDS_S
    exchanges: list[list[Any]] = []
    count, position = 0, start
    while position < len(visible) and count < min(max_records, MAX_ROWS) and time.perf_counter() < deadline:
        row = visible[position]
        position += 1
        if index.api[row - index.first] not in _RECORD_API_KEYS or (exchange := session.exchange(row)) is None:
            continue
        if record_fields := records_json(exchange, record_test(session, exchange, visible.filter)):
            exchanges.append([row_json(session, exchange, row), record_fields])
            count += sum(len(field["rows"]) for field in record_fields)
    has_more = position < len(visible) or _is_growing(session, view)
    return {"exchanges": exchanges, "next": position if has_more else None}


def raw_lines(session: BrowseSession, rows: Iterable[int]) -> Iterator[bytes]:
    """Yield the lines of rows as a trace, which kproxy can read again."""
    for row in rows:
        for line in session.raw(row):
            if line:
                yield line + b"\n"
