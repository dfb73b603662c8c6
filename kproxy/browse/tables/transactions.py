"""The table of transactional producers."""

from __future__ import annotations

from kproxy.browse.facts import transactions as facts
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.table import (
    ColumnKind,
    OverviewColumn,
    OverviewRow,
    OverviewTable,
    TimeSpan,
)
from kproxy.filters.lexer import quoted
from kproxy.trace.timestamps import timestamp
from kproxy.transactions.rows import TransactionRow, TransactionSpan

_MAX_SHOWN = 50
_MAX_SPANS = 200
_COLUMNS = (
    OverviewColumn("transactional id", style="name"),
    OverviewColumn("producer"),
    OverviewColumn("client", style="dim"),
    OverviewColumn("state"),
    OverviewColumn("open for", ColumnKind.DURATION, "warning"),
    OverviewColumn("timeout", ColumnKind.DURATION, "dim"),
    OverviewColumn("partitions", ColumnKind.COUNT),
    OverviewColumn("commits", ColumnKind.COUNT),
    OverviewColumn("aborts", ColumnKind.COUNT),
    OverviewColumn("fenced", ColumnKind.COUNT, "warning"),
    OverviewColumn("longest ended", ColumnKind.DURATION),
    OverviewColumn("what is wrong", style="warning"),
    OverviewColumn("when it was open", ColumnKind.SPANS),
)


def transactions(session: BrowseSession, view: SessionView) -> OverviewTable:
    """Return the table of transactional ids, or of those in the rows of a view.

    Those that hold up records come first, then those whose transaction has been open for longest.
    """
    overview, items = session.overviews.transactions, facts.rows_in_view(session, view)
    items.sort(key=lambda row: (not row.held, row.begun_at is None, row.begun_at or row.first_at))
    start = min((item.first_at for item in items), default=session.now)
    about = "Transactional producers: which transaction is open, how the others ended, and what it holds up."
    omitted_text = f"{overview.evicted:,} inactive transactional ids are not listed" if overview.evicted else ""
    return OverviewTable(
        "Transactions", about, _COLUMNS, [_row(session, item, start) for item in items], "", omitted_text
    )


def _row(session: BrowseSession, item: TransactionRow, start: int) -> OverviewRow:
    now = session.now
    spans = session.overviews.transactions.spans(item.key)[-_MAX_SPANS:]
    values = [
        item.key or "(empty)",
        f"{item.producer_id}/{item.producer_epoch}" if item.producer_id >= 0 else "",
        item.client_id,
        item.state.value,
        None if item.begun_at is None else (now - item.begun_at) // 1000,
        item.timeout_ms * 1000 or None,
        len(item.partitions),
        item.commits,
        item.aborts,
        item.fenced,
        item.longest_ns // 1000 or None,
        item.problem(now),
        [_time_span(span, start, now) for span in spans],
    ]
    marks = [(f"{span.outcome.value} transaction of {timestamp(span.begun_at)[11:23]}", span.row)
             for span in reversed(spans[-_MAX_SHOWN:])]  # fmt: skip
    filter_text = None if item.transactional_id is None else f"transaction={quoted(item.transactional_id)}"
    return OverviewRow(item.key, values, filter_text, item.row, facts.facts(session, item), marks)


def _time_span(span: TransactionSpan, start: int, now: int) -> TimeSpan:
    ended_at = now if span.ended_at is None else span.ended_at
    total_time = max(now - start, 1)
    begin, length = 1000 * (span.begun_at - start) // total_time, 1000 * (ended_at - span.begun_at) // total_time
    return TimeSpan(begin, length, span.outcome.value, (ended_at - span.begun_at) // 1_000_000, span.row)
