"""The table of topics."""

from __future__ import annotations

from kproxy.browse.facts import topics as facts
from kproxy.browse.facts.texts import names_and_counts
from kproxy.browse.overviews.topic import TopicSummary, Traffic
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.table import (
    ColumnKind,
    OverviewColumn,
    OverviewRow,
    OverviewTable,
    spark,
)
from kproxy.filters.lexer import quoted

#: Maximum number of readers, of clients and of partitions in the facts of a topic.
_MAX_SHOWN = 50
_COLUMNS = (
    OverviewColumn("topic", style="topic"),
    OverviewColumn("written", ColumnKind.COUNT),
    OverviewColumn("written/s", ColumnKind.RATE),
    OverviewColumn("writes over time", ColumnKind.SPARK),
    OverviewColumn("bytes written", ColumnKind.BYTES),
    OverviewColumn("read", ColumnKind.COUNT),
    OverviewColumn("read/s", ColumnKind.RATE),
    OverviewColumn("reads over time", ColumnKind.SPARK),
    OverviewColumn("bytes read", ColumnKind.BYTES),
    OverviewColumn("empty fetches", ColumnKind.COUNT, "dim"),
    OverviewColumn("lag", ColumnKind.COUNT, "warning"),
    OverviewColumn("most lag", ColumnKind.COUNT, "dim"),
    OverviewColumn("behind", ColumnKind.DURATION),
    OverviewColumn("delivery", ColumnKind.DURATION),
    OverviewColumn("partitions", ColumnKind.COUNT),
    OverviewColumn("errors", style="error"),
)


def topics(session: BrowseSession, view: SessionView) -> OverviewTable:
    """Return the table of topics, or of those in the rows of a view."""
    overview = session.overviews.topics
    rows = [_row(session, summary) for summary in facts.rows_in_view(session, view)]
    about = (
        "Records written, and read by all readers. Lag is that of the slowest reader, in records: what its last Fetch"
        " responses left, and what was written since. Behind is how old the records were that it got last; delivery is"
        " the time from Produce to Fetch of the last batch."
    )
    omitted_text = f"{overview.evicted:,} inactive topics are not listed" if overview.evicted else ""
    return OverviewTable("Topics", about, _COLUMNS, rows, "-bytes written", omitted_text)


def _row(session: BrowseSession, item: TopicSummary) -> OverviewRow:
    live, name = session.source.live, item.topic or item.topic_id or ""
    values = [
        name or "?",
        *_traffic_values(item.produced, live=live),
        *_traffic_values(item.fetched, live=live),
        item.fetched.empty,
        item.lag,
        item.lag_max,
        None if item.age_ms is None else item.age_ms * 1000,
        item.delivery_us,
        item.partitions,
        names_and_counts(item.errors),
    ]
    filter_text = f"topic={quoted(item.topic)}" if item.topic is not None else f"topic_id={quoted(item.topic_id or '')}"
    marks = [("first", item.first_row), ("last", item.last_row)]
    return OverviewRow(name, values, filter_text, facts=facts.separate_facts(session, item, _MAX_SHOWN), marks=marks)


def _traffic_values(traffic: Traffic, *, live: bool) -> list[object]:
    over_time = spark(traffic.minute if live else traffic.all_time)
    return [traffic.records, traffic.records_rate, over_time, traffic.bytes]
