"""The table of clients."""

from __future__ import annotations

from kproxy.browse.overviews.clients import Client
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.table import (
    Column,
    ColumnKind,
    Row,
    Table,
    microseconds,
    names_and_counts,
    quoted,
    severities,
)

_COLUMNS = (
    Column("client", style="name"),
    Column("software"),
    Column("host", style="dim"),
    Column("connections", ColumnKind.COUNT),
    Column("requests", ColumnKind.COUNT),
    Column("last seen", ColumnKind.TIME),
    Column("errors", ColumnKind.COUNT, "error"),
    Column("findings", ColumnKind.FINDINGS),
    Column("Kafka 4"),
    Column("why", style="dim"),
)


def clients(session: BrowseSession, view: SessionView) -> Table:
    """The clients, or those in the rows of a view."""
    matching, overview = view.matching, session.overviews.clients
    rows = [
        _row(each) for each in overview.rows() if matching is None or (each.client_id, each.host) in matching.clients
    ]
    about = "Clients by client id, software and host. Kafka 4 no longer serves the oldest versions (KIP-896)."
    return Table("Clients", about, _COLUMNS, rows, "-requests")


def _row(item: Client) -> Row:
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
    return Row(f"{item.client_id} {software} {item.host}", values, narrow, item.first_row, facts, marks)
