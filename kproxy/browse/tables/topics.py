"""The table of topics."""

from __future__ import annotations

from kproxy.browse.overviews.topic import PartitionSummary, TopicClient, TopicSummary, Traffic
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.table import (
    ColumnKind,
    OverviewColumn,
    OverviewRow,
    OverviewTable,
    names_and_counts,
    quoted,
    squeezed,
)
from kproxy.trace.formatting import size

#: Most readers, clients and partitions in the facts of a topic.
_MOST = 50
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
    """The topics, or those in the rows of a view."""
    matching, overview = view.matching, session.overviews.topics
    rows = [
        _row(session, each)
        for each in overview.rows(session.now)
        if matching is None or not matching.topics.isdisjoint((each.topic, each.topic_id))
    ]
    about = (
        "Records written and read. Lag is that of the slowest reader, in records; behind is how old the records are"
        " that it gets; delivery is the time from Produce to Fetch."
    )
    more = f"{overview.evicted:,} inactive topics are not listed" if overview.evicted else ""
    return OverviewTable("Topics", about, _COLUMNS, rows, "-bytes written", more)


def _row(session: BrowseSession, item: TopicSummary) -> OverviewRow:
    live, overview, name = session.source.live, session.overviews.topics, item.topic or item.topic_id or ""
    values = [
        name or "?",
        *_traffic(item.produced, live=live),
        *_traffic(item.fetched, live=live),
        item.fetched.empty,
        item.lag,
        item.lag_max,
        None if item.age_ms is None else item.age_ms * 1000,
        item.delivery_us,
        item.partitions,
        names_and_counts(item.errors),
    ]
    facts = [
        ("topic id", item.topic_id or ""),
        ("producers", f"{item.producers:,}"),
        ("consumers", f"{item.consumers:,}"),
        *((f"reader {'group ' if each.is_group else ''}{each.name}", f"lag {each.lag:,} (most {each.lag_max:,})")
          for each in overview.readers(name)[:_MOST]),
        *((f"client {each.client_id or '(none)'}", _client(each)) for each in overview.clients(name)[:_MOST]),
        *((f"partition {each.partition}", _partition(each)) for each in overview.partitions(name)[:_MOST]),
    ]  # fmt: skip
    narrow = f"topic={quoted(item.topic)}" if item.topic is not None else f"topic_id={quoted(item.topic_id or '')}"
    return OverviewRow(name, values, narrow, facts=facts, marks=[("first", item.first_row), ("last", item.last_row)])


def _traffic(traffic: Traffic, *, live: bool) -> list[object]:
    over_time = squeezed(traffic.minute if live else traffic.all_time)
    return [traffic.records, traffic.records_rate, over_time, traffic.bytes]


def _client(client: TopicClient) -> str:
    parts = [f"at {client.host}"]
    if client.group:
        parts.append(f"group {client.group}")
    if client.produced_requests:
        parts.append(f"writes {client.produced_records:,} records, {size(client.produced_bytes)}")
    if client.fetched_responses:
        parts.append(f"reads {client.fetched_records:,} records, {size(client.fetched_bytes)}")
    return ", ".join(parts)


def _partition(part: PartitionSummary) -> str:
    lag = "" if part.lag is None else f", lag {part.lag:,}"
    return f"{size(part.produced_bytes)} in, {size(part.fetched_bytes)} out{lag}"
