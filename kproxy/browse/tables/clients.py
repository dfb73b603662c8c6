"""The table of clients."""

from __future__ import annotations

from kproxy.browse.overviews.clients import Client
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.table import (
    ColumnKind,
    OverviewColumn,
    OverviewRow,
    OverviewTable,
    microseconds,
    names_and_counts,
    quoted,
    severities,
)

_COLUMNS = (
    OverviewColumn("client", style="name"),
    OverviewColumn("software"),
    OverviewColumn("host", style="dim"),
    OverviewColumn("connections", ColumnKind.COUNT),
    OverviewColumn("requests", ColumnKind.COUNT),
    OverviewColumn("last seen", ColumnKind.TIME),
    OverviewColumn("errors", ColumnKind.COUNT, "error"),
    OverviewColumn("findings", ColumnKind.FINDINGS),
    OverviewColumn("Kafka 4"),
    OverviewColumn("why", style="dim"),
)


def clients(session: BrowseSession, view: SessionView) -> OverviewTable:
    """The clients, or those in the rows of a view."""
    matching, overview = view.matching, session.overviews.clients
    rows = [
        _row(each) for each in overview.rows() if matching is None or (each.client_id, each.host) in matching.clients
    ]
    about = "Clients by client id, software and host. Kafka 4 no longer serves the oldest versions (KIP-896)."
    return OverviewTable("Clients", about, _COLUMNS, rows, "-requests")


def _row(item: Client) -> OverviewRow:
    software = f"{item.software_name or ''} {item.software_version or ''}".strip()
    values = [
        item.client_id or "(none)",
        software,
        item.host,
        item.connections,
        item.requests,
        microseconds(item.last_at),
        item.refusals,
        severities(item.findings),
        item.verdict.value,
        item.reason,
    ]
    uses = (f"{each.api} v{each.lowest}" + (f"-{each.highest}" if each.highest != each.lowest else "")
            + f" ({each.requests:,})" for each in item.apis)  # fmt: skip
    facts = [
        ("uses", ", ".join(uses) + (" ..." if item.more_versions else "")),
        ("negotiates versions", "yes" if item.negotiates else "not seen"),
        ("errors", names_and_counts(item.errors)),
        ("repeated findings", f"{item.repeated:,}" if item.repeated else ""),
    ]
    narrow = f"client_id={quoted(item.client_id)}" if item.client_id else None
    marks = [("first", item.first_row), ("last", item.last_row)]
    return OverviewRow(f"{item.client_id} {software} {item.host}", values, narrow, item.first_row, facts, marks)
