"""The table of clients."""

from __future__ import annotations

from kproxy.browse.facts import clients as facts
from kproxy.browse.facts.texts import software
from kproxy.browse.overviews.clients import Client
from kproxy.browse.overviews.kafka4 import Kafka4Verdict
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
from kproxy.filters.lexer import quoted

_COLUMNS = (
    OverviewColumn("client", style="name"),
    OverviewColumn("software"),
    OverviewColumn("host", style="dim"),
    OverviewColumn("connections", ColumnKind.COUNT),
    OverviewColumn("requests", ColumnKind.COUNT),
    OverviewColumn("in", ColumnKind.BYTES),
    OverviewColumn("out", ColumnKind.BYTES),
    OverviewColumn("last seen", ColumnKind.TIME),
    OverviewColumn("errors", ColumnKind.COUNT, "error"),
    OverviewColumn("findings", ColumnKind.FINDINGS),
    OverviewColumn("Kafka 4"),
    OverviewColumn("why", style="dim"),
)


def clients(session: BrowseSession, view: SessionView) -> OverviewTable:
    """Return the table of clients, or of those in the rows of a view."""
    rows = [_row(session, client) for client in facts.rows_in_view(session, view)]
    about = (
        "Clients by client id, software and host. In and out are the bytes of requests and of responses. Kafka 4 no"
        " longer serves the oldest versions (KIP-896)."
    )
    return OverviewTable("Clients", about, _COLUMNS, rows, "-requests")


def _row(session: BrowseSession, item: Client) -> OverviewRow:
    values = [
        item.client_id or "(none)",
        software(item),
        item.host,
        item.connections,
        item.requests,
        item.request_bytes,
        item.response_bytes,
        microseconds(item.last_at),
        item.refusals,
        severities(item.findings),
        item.verdict.value,
        "" if item.verdict is Kafka4Verdict.WORKS else item.reason,
    ]
    filter_text = f"client_id={quoted(item.client_id)}" if item.client_id else None
    marks = [("first", item.first_row), ("last", item.last_row)]
    key = f"{item.client_id} {software(item)} {item.host}"
    return OverviewRow(key, values, filter_text, item.first_row, facts.facts(session, item), marks)
