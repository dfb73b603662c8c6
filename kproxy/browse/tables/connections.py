"""The table of connections, and the table of brokers, which sums the connections to each address."""

from __future__ import annotations

from collections import Counter

from kproxy.browse.facts import connections as facts
from kproxy.browse.facts.texts import names_and_counts, software
from kproxy.browse.overviews.connection import ConnectionSummary
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.table import (
    ColumnKind,
    OverviewColumn,
    OverviewRow,
    OverviewTable,
    microseconds,
    severities,
)
from kproxy.counting.counts import Severities
from kproxy.filters.lexer import quoted

_COLUMNS = (
    OverviewColumn("state", style="dim"),
    OverviewColumn("conn", style="dim"),
    OverviewColumn("client", style="name"),
    OverviewColumn("address"),
    OverviewColumn("server", style="dim"),
    OverviewColumn("opened", ColumnKind.TIME),
    OverviewColumn("requests", ColumnKind.COUNT),
    OverviewColumn("in", ColumnKind.BYTES),
    OverviewColumn("out", ColumnKind.BYTES),
    OverviewColumn("waiting", ColumnKind.COUNT, "warning"),
    OverviewColumn("oldest wait", ColumnKind.DURATION, "warning"),
    OverviewColumn("no response", ColumnKind.COUNT, "error"),
    OverviewColumn("p50", ColumnKind.DURATION),
    OverviewColumn("p99", ColumnKind.DURATION),
    OverviewColumn("errors", ColumnKind.COUNT, "error"),
    OverviewColumn("throttled", ColumnKind.DURATION, "warning"),
    OverviewColumn("findings", ColumnKind.FINDINGS),
)
_BROKER_COLUMNS = (
    OverviewColumn("broker", style="name"),
    OverviewColumn("open", ColumnKind.COUNT),
    OverviewColumn("connections", ColumnKind.COUNT),
    OverviewColumn("clients", ColumnKind.COUNT),
    OverviewColumn("requests", ColumnKind.COUNT),
    OverviewColumn("in", ColumnKind.BYTES),
    OverviewColumn("out", ColumnKind.BYTES),
    OverviewColumn("waiting", ColumnKind.COUNT, "warning"),
    OverviewColumn("no response", ColumnKind.COUNT, "error"),
    OverviewColumn("worst p99", ColumnKind.DURATION),
    OverviewColumn("errors", ColumnKind.COUNT, "error"),
    OverviewColumn("throttled", ColumnKind.DURATION, "warning"),
    OverviewColumn("findings", ColumnKind.FINDINGS),
)


def connections(session: BrowseSession, view: SessionView) -> OverviewTable:
    """Return the table of connections, or of those with a row in a view."""
    overview = session.overviews.connections
    rows = [_row(session, summary) for summary in facts.rows_in_view(session, view)]
    about = (
        "TCP connections, with what waits on each. In and out are the bytes of requests and of responses. Those"
        " without a time were opened before the trace begins."
    )
    omitted_text = f"{overview.others:,} older closed connections are not listed" if overview.others else ""
    return OverviewTable("Connections", about, _COLUMNS, rows, "opened", omitted_text)


def brokers(session: BrowseSession, view: SessionView) -> OverviewTable:
    """Return the table of the addresses that clients connect to."""
    summaries_by_server: dict[str, list[ConnectionSummary]] = {}
    for summary in facts.rows_in_view(session, view):
        summaries_by_server.setdefault(summary.server, []).append(summary)
    about = "Brokers by the address that clients reach, with the traffic of all connections to each."
    rows = [_broker_row(name, summaries) for name, summaries in summaries_by_server.items()]
    return OverviewTable("Brokers", about, _BROKER_COLUMNS, rows, "-requests")


def _row(session: BrowseSession, item: ConnectionSummary) -> OverviewRow:
    oldest = item.oldest if item.in_flight else None
    values = [
        "open" if item.is_open else "closed",
        "#" + item.connection_id.rpartition("-")[2],
        facts.client_ids(item) or software(item) or "(none)",
        item.client,
        item.server,
        microseconds(item.opened_at),
        item.requests,
        item.request_bytes,
        item.response_bytes,
        item.in_flight,
        facts.waiting_time_us(session, item),
        item.unanswered,
        item.p50_us,
        item.p99_us,
        item.refusals,
        item.throttled_ms * 1000 if item.throttled else None,
        severities(item.findings),
    ]
    marks = [("first row", item.first_row), ("last row", item.last_row)]
    if oldest is not None:
        marks.insert(0, ("oldest waiting request", oldest.row))
    filter_text = f"connection={quoted(item.connection_id)}"
    return OverviewRow(item.connection_id, values, filter_text, facts=facts.facts(session, item), marks=marks)


def _broker_row(name: str, summaries: list[ConnectionSummary]) -> OverviewRow:
    errors: Counter[str] = Counter()
    for summary in summaries:
        errors.update(dict(summary.errors))
    clients = {client for summary in summaries for client in summary.client_ids if client}
    values = [
        name or "(unknown)",
        sum(summary.is_open for summary in summaries),
        len(summaries),
        len(clients),
        sum(summary.requests for summary in summaries),
        sum(summary.request_bytes for summary in summaries),
        sum(summary.response_bytes for summary in summaries),
        sum(summary.in_flight for summary in summaries),
        sum(summary.unanswered for summary in summaries),
        max((summary.p99_us for summary in summaries if summary.p99_us is not None), default=None),
        sum(summary.refusals for summary in summaries),
        1000 * sum(summary.throttled_ms for summary in summaries) or None,
        severities(Severities.sum(summary.findings for summary in summaries)),
    ]
    broker_facts = [("clients", ", ".join(sorted(clients)[:50])), ("errors", names_and_counts(errors.most_common(20)))]
    return OverviewRow(name, values, f"server={quoted(name)}", facts=broker_facts)
