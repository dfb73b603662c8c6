"""Connections: state, clients, requests in flight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from kproxy.browse.facts import connections
from kproxy.browse.facts.texts import software
from kproxy.browse.overviews.connection import ConnectionSummary
from kproxy.browse.session import BrowseSession
from kproxy.filters.lexer import quoted
from kproxy.trace.formatting import duration, safe, size
from kproxy.tui.overview import OverviewView, count_cell, latency_cell, lines, severity_cell
from kproxy.tui.table import Cell, TableColumn


class ConnectionView(OverviewView[ConnectionSummary]):
    """The view of connections."""

    title: ClassVar[str] = "Connections"
    short_title: ClassVar[str] = "Conns"
    about: ClassVar[str] = (
        "Each row is a TCP connection: + open, - closed. Waiting counts the unanswered requests, with the age of the"
        " oldest. In and out are the bytes of all requests and"
        " responses. Below are the versions used, how the connection ended, and how often it was"
        " throttled. Enter shows its frames."
    )
    columns: ClassVar[Sequence[TableColumn]] = (
        TableColumn("", 1),
        TableColumn("conn", 6, right=True),
        TableColumn("client", 15, grow=1),
        TableColumn("server", 15, grow=1, drop=3),
        TableColumn("who", 14, grow=2, drop=1),
        TableColumn("asked", 7, right=True, drop=6),
        TableColumn("in", 8, right=True, drop=8),
        TableColumn("out", 8, right=True, drop=8),
        TableColumn("waiting", 11, right=True),
        TableColumn("p50", 8, right=True, drop=7),
        TableColumn("p99", 8, right=True, drop=2),
        TableColumn("errors", 6, right=True, drop=4),
        TableColumn("throttled", 9, right=True, drop=9),
        TableColumn("findings", 9),
    )
    orders: ClassVar = (
        ("t", "time", lambda row: -row.first_at),
        ("w", "waiting", lambda summary: (summary.in_flight, -(summary.oldest.since if summary.oldest else 0))),
        ("b", "bytes", lambda row: row.request_bytes + row.response_bytes),
        ("a", "asked", lambda row: row.requests),
        ("9", "p99", lambda row: row.p99_us or -1),
        ("e", "errors", lambda row: row.refusals),
        ("f", "findings", lambda row: row.findings[::-1]),
    )

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "connections")

    def items(self) -> list[ConnectionSummary]:
        """See `OverviewView`."""
        return connections.rows_in_view(self.session, self.session.view)

    def omitted_items(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self.session.overviews.connections.others, "older closed connections"

    def key(self, item: ConnectionSummary) -> str:
        """See `OverviewView`."""
        return item.connection_id

    def cells(self, item: ConnectionSummary) -> Sequence[Cell]:
        """See `OverviewView`."""
        return [
            [("+", "response") if item.is_open else ("-", "dim")],
            [("#" + safe(item.connection_id.rpartition("-")[2]), "dim")],
            [(safe(item.client), "")],
            [(safe(item.server), "dim"), *([(" TLS", "info")] if item.tls else [])],
            [(_client_text(item), "")],
            count_cell(item.requests),
            [(size(item.request_bytes), "")],
            [(size(item.response_bytes), "")],
            self._waiting_cell(item),
            latency_cell(item.p50_us),
            latency_cell(item.p99_us),
            count_cell(item.refusals, "error"),
            [(f"{item.throttled_ms:,} ms", "warning")] if item.throttled else [],
            severity_cell(item.findings),
        ]

    def _waiting_cell(self, item: ConnectionSummary) -> Cell:
        if (waiting_us := connections.waiting_time_us(self.session, item)) is None:
            return [(f"{item.unanswered} never", "error")] if item.unanswered else []
        return [(f"{item.in_flight} {duration(waiting_us)}", "warning")]

    def item_text(self, item: ConnectionSummary) -> Text:
        """See `OverviewView`."""
        return lines(*connections.facts(self.session, item))

    def open(self, item: ConnectionSummary) -> None:
        """See `OverviewView`."""
        self.narrow(f"connection={quoted(item.connection_id)}")


def _client_text(item: ConnectionSummary) -> str:
    return safe("  ".join(part for part in (connections.client_ids(item), software(item)) if part))
