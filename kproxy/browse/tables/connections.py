"""The table of connections, and that of brokers, which sums the connections to each address."""

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
    OverviewColumn("never answered", ColumnKind.COUNT, "error"),
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
    OverviewColumn("never answered", ColumnKind.COUNT, "error"),
    OverviewColumn("worst p99", ColumnKind.DURATION),
    OverviewColumn("errors", ColumnKind.COUNT, "error"),
    OverviewColumn("throttled", ColumnKind.DURATION, "warning"),
    OverviewColumn("findings", ColumnKind.FINDINGS),
)


def connections(session: BrowseSession, view: SessionView) -> OverviewTable:
    """The connections, or those with a row in a view."""
    overview = session.overviews.connections
    rows = [_row(session, each) for each in facts.shown(session, view)]
    about = "TCP connections, with what waits on each. In and out are the bytes of requests and of responses."
    more = f"{overview.others:,} older closed connections are not listed" if overview.others else ""
    return OverviewTable("Connections", about, _COLUMNS, rows, "opened", more)


def brokers(session: BrowseSession, view: SessionView) -> OverviewTable:
    """The addresses that clients connect to."""
    by_server: dict[str, list[ConnectionSummary]] = {}
    for each in facts.shown(session, view):
        by_server.setdefault(each.server, []).append(each)
    about = "Brokers by the address that clients reach, with the traffic of all connections to each."
    rows = [_broker(name, found) for name, found in by_server.items()]
    return OverviewTable("Brokers", about, _BROKER_COLUMNS, rows, "-requests")


def _row(session: BrowseSession, item: ConnectionSummary) -> OverviewRow:
    oldest = item.oldest if item.in_flight else None
    values = [
        "open" if item.is_open else "closed",
        "#" + item.connection_id.rpartition("-")[2],
        facts.names(item) or software(item) or "(none)",
        item.client,
        item.server,
        microseconds(item.opened_at or item.first_at),
        item.requests,
        item.request_bytes,
        item.response_bytes,
        item.in_flight,
        facts.waited_us(session, item),
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
    narrow = f"connection={quoted(item.connection_id)}"
    return OverviewRow(item.connection_id, values, narrow, facts=facts.facts(session, item), marks=marks)


def _broker(name: str, found: list[ConnectionSummary]) -> OverviewRow:
    errors: Counter[str] = Counter()
    for each in found:
        errors.update(dict(each.errors))
    clients = {client for each in found for client in each.client_ids if client}
    values = [
        name or "(unknown)",
        sum(each.is_open for each in found),
        len(found),
        len(clients),
        sum(each.requests for each in found),
        sum(each.request_bytes for each in found),
        sum(each.response_bytes for each in found),
        sum(each.in_flight for each in found),
        sum(each.unanswered for each in found),
        max((each.p99_us for each in found if each.p99_us is not None), default=None),
        sum(each.refusals for each in found),
        1000 * sum(each.throttled_ms for each in found) or None,
        severities(Severities.sum(each.findings for each in found)),
    ]
    known = [("clients", ", ".join(sorted(clients)[:50])), ("errors", names_and_counts(errors.most_common(20)))]
    return OverviewRow(name, values, f"server={quoted(name)}", facts=known)
