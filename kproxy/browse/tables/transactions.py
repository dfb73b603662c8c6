"""The table of transactional producers."""

from __future__ import annotations

from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.table import ColumnKind, OverviewColumn, OverviewRow, OverviewTable, names_and_counts, quoted
from kproxy.trace.timestamps import timestamp
from kproxy.transactions.rows import TransactionRow

_MOST = 50
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
    OverviewColumn("longest", ColumnKind.DURATION),
    OverviewColumn("what is wrong", style="warning"),
)


def transactions(session: BrowseSession, view: SessionView) -> OverviewTable:
    """The transactional ids, or those in the rows of a view; what is open for longest is first."""
    matching, overview = view.matching, session.overviews.transactions
    found = [
        each
        for each in overview.rows(session.now)
        if matching is None or each.transactional_id in matching.transactions
    ]
    found.sort(key=lambda each: (not each.held, each.begun_at is None, each.begun_at or each.first_at))
    about = "Transactional producers: which transaction is open, how the others ended, and what it holds up."
    more = f"{overview.evicted:,} inactive transactional ids are not listed" if overview.evicted else ""
    return OverviewTable("Transactions", about, _COLUMNS, [_row(session, each) for each in found], "", more)


def _row(session: BrowseSession, item: TransactionRow) -> OverviewRow:
    now = session.now
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
    ]
    spans = session.overviews.transactions.spans(item.key)
    facts = [
        ("client", f"{item.client_id} at {item.client}" if item.client else "not observed"),
        ("protocol", f"version {item.version}" if item.version else ""),
        ("last request", timestamp(item.last_at)),
        ("last connection ended", timestamp(item.gone_at) if item.gone_at is not None else ""),
        ("partitions", ", ".join(f"{topic}[{partition}]" for topic, partition in item.partitions[:_MOST])),
        ("offsets of groups", ", ".join(item.groups[:_MOST])),
        ("holds", ", ".join(f"{each.topic}[{each.partition}] at {each.last_stable_offset:,} since "
                            f"{timestamp(each.since)[11:23]} ({each.records:,} records after it)"
                            for each in item.held[:_MOST])),
        ("errors", names_and_counts(item.errors)),
    ]  # fmt: skip
    marks = [(f"{span.outcome.value} transaction of {timestamp(span.begun_at)[11:23]}", span.row)
             for span in reversed(spans[-_MOST:])]  # fmt: skip
    narrow = None if item.transactional_id is None else f"transaction={quoted(item.transactional_id)}"
    return OverviewRow(item.key, values, narrow, item.row, facts, marks)
