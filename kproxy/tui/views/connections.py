"""Connections: state, clients, requests in flight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from kproxy.browse.overviews.connection import ConnectionSummary
from kproxy.browse.session import BrowseSession
from kproxy.trace.formatting import duration, safe, size
from kproxy.trace.timestamps import timestamp
from kproxy.tui.overview import OverviewView, count, found, lines, names_and_counts, quoted, took
from kproxy.tui.table import Cell, TableColumn


class ConnectionView(OverviewView[ConnectionSummary]):
    """See the module."""

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
        ("t", "time", lambda each: -each.first_at),
        ("w", "waiting", lambda each: (each.in_flight, -(each.oldest.since if each.oldest else 0))),
        ("b", "bytes", lambda each: each.request_bytes + each.response_bytes),
        ("a", "asked", lambda each: each.requests),
        ("9", "p99", lambda each: each.p99_us or -1),
        ("e", "errors", lambda each: each.refusals),
        ("f", "findings", lambda each: each.findings[::-1]),
    )

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "connections")

    def items(self) -> list[ConnectionSummary]:
        """See `OverviewView`."""
        rows, matching = self.session.overviews.connections.rows(), self.session.matching
        return [each for each in rows if matching is None or each.connection_id in matching.connections]

    def unlisted(self) -> tuple[int, str]:
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
            count(item.requests),
            [(size(item.request_bytes), "")],
            [(size(item.response_bytes), "")],
            self._waiting(item),
            took(item.p50_us),
            took(item.p99_us),
            count(item.refusals, "error"),
            [(f"{item.throttled_ms:,} ms", "warning")] if item.throttled else [],
            found(item.findings),
        ]

    def _waiting(self, item: ConnectionSummary) -> Cell:
        if not item.in_flight or item.oldest is None:
            return [(f"{item.unanswered} never", "error")] if item.unanswered else []
        waited = max(0, self.session.now - item.oldest.since) // 1000
        return [(f"{item.in_flight} {duration(waited)}", "warning")]

    def item_text(self, item: ConnectionSummary) -> Text:
        """See `OverviewView`."""
        oldest, clock = item.oldest, self.session.clock
        closed = f"{clock.labelled(item.closed_at)} {_how(item)}" if item.closed_at else ""
        versions = (f"{safe(api)} v{',v'.join(map(str, used))}" for api, used in sorted(item.versions.items()))
        waiting = (
            "" if oldest is None else f"{oldest.api or '?'} v{oldest.api_version}, id {oldest.correlation_id}, since "
        )
        throttle = item.last_throttle
        late = self.session.source.late.get(item.connection_id) if oldest is not None else None
        if late is not None and oldest is not None and late.ts != timestamp(oldest.since):
            late = None  # that request has its response
        return lines(
            ("connection", f"{safe(item.connection_id)}  {safe(item.client)} -> {safe(item.server)}"),
            ("opened", clock.labelled(item.opened_at) if item.opened_at else "before the trace begins"),
            ("ended", safe(closed)),
            ("software", safe(f"{item.software_name or ''} {item.software_version or ''}".strip())),
            ("login", safe(f"{item.sasl} {item.sasl_error or ''}".strip()) if item.sasl else ""),
            ("principal", safe(item.principal or "")),
            ("client instance", safe(item.client_instance_id or "")),
            ("oldest request", safe(waiting) + clock.labelled(oldest.since) if oldest else ""),
            ("late", safe(f"{late.wait}: {late.why}") if late is not None else ""),
            ("versions used", "  ".join(versions)),
            ("errors", names_and_counts(item.errors)),
            ("throttled", f"{item.throttled} times, the last for {throttle.ms} ms" if throttle else ""),
            ("repeated findings", f"{item.repeated:,}" if item.repeated else ""),
            ("not inspected", f"{item.gap_bytes:,} bytes in {item.gaps} gaps" if item.gaps else ""),
        )

    def open(self, item: ConnectionSummary) -> None:
        """See `OverviewView`."""
        self.narrow(f"connection={quoted(item.connection_id)}")


def _how(item: ConnectionSummary) -> str:
    """``fin by client``; the end of a capture is nobody's doing."""
    return " ".join(filter(None, (item.closed_how, f"by {item.closed_by}" if item.closed_by else None)))


def _client_text(item: ConnectionSummary) -> str:
    names = ", ".join(dict.fromkeys(safe(each) for each in item.client_ids if each))
    software = safe(f"{item.software_name or ''} {item.software_version or ''}".strip())
    return "  ".join(part for part in (names + (" ..." if item.more_client_ids else ""), software) if part)
