"""Clients: identity, API versions used, and whether they work with Kafka 4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from kproxy.browse.facts import clients
from kproxy.browse.facts.texts import software
from kproxy.browse.overviews.clients import Client
from kproxy.browse.overviews.kafka4 import Kafka4Verdict
from kproxy.browse.session import BrowseSession
from kproxy.filters.lexer import quoted
from kproxy.trace.formatting import safe
from kproxy.tui.overview import OverviewView, count_cell, lines, severity_cell
from kproxy.tui.table import Cell, TableColumn

_STYLES = {Kafka4Verdict.WORKS: "response", Kafka4Verdict.REFUSED: "error", Kafka4Verdict.UNKNOWN: "warning"}
_BADNESS = {Kafka4Verdict.REFUSED: 2, Kafka4Verdict.UNKNOWN: 1, Kafka4Verdict.WORKS: 0}


class ClientView(OverviewView[Client]):
    """The view of clients."""

    title: ClassVar[str] = "Clients"
    about: ClassVar[str] = (
        "Each row is a client: its client id, its software, and its host. Kafka 4 no longer serves the"
        " oldest versions (KIP-896): works, refused, or unknown if the traffic does not show it, each with a reason."
        " Below are the APIs and versions that it uses. Enter shows its frames."
    )
    columns: ClassVar[Sequence[TableColumn]] = (
        TableColumn("client", 14, grow=2),
        TableColumn("software", 14, grow=2, drop=2),
        TableColumn("host", 15, drop=5),
        TableColumn("conns", 6, right=True, drop=6),
        TableColumn("asked", 8, right=True, drop=4),
        TableColumn("errors", 6, right=True, drop=3),
        TableColumn("findings", 9, drop=1),
        TableColumn("Kafka 4", 8),
        TableColumn("because", 20, grow=4),
    )
    orders: ClassVar = (
        ("k", "Kafka 4", lambda client: (_BADNESS[client.verdict], client.requests)),
        ("a", "asked", lambda row: row.requests),
        ("e", "errors", lambda row: row.refusals),
        ("f", "findings", lambda row: row.findings[::-1]),
        ("l", "last seen", lambda row: row.last_at),
    )

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "clients")

    def items(self) -> list[Client]:
        """See `OverviewView`."""
        return clients.rows_in_view(self.session, self.session.view)

    def omitted_items(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self.session.overviews.clients.others, "older clients"

    def key(self, item: Client) -> tuple[str | None, ...]:
        """See `OverviewView`."""
        return item.client_id, item.software_name, item.software_version, item.host

    def cells(self, item: Client) -> Sequence[Cell]:
        """See `OverviewView`."""
        return [
            [(safe(item.client_id or "(none)"), "name")],
            [(safe(software(item)), "")],
            [(safe(item.host), "dim")],
            count_cell(item.connections),
            count_cell(item.requests),
            count_cell(item.refusals, "error"),
            severity_cell(item.findings),
            [(item.verdict.value, _STYLES[item.verdict])],
            [(safe(item.reason), "")],
        ]

    def item_text(self, item: Client) -> Text:
        """See `OverviewView`."""
        return lines(*clients.facts(self.session, item))

    def open(self, item: Client) -> None:
        """See `OverviewView`."""
        if item.client_id:
            self.narrow(f"client_id={quoted(item.client_id)}")
        else:
            self.jump(item.first_row)
