"""Connections: how they stand, who is on them, what waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from kproxy.browse.overviews.connection import ConnectionSummary
from kproxy.browse.session import BrowseSession
from kproxy.trace.clock import timestamp
from kproxy.trace.formatting import duration, safe, size
from kproxy.tui.overview import OverviewView, count, found, lines, names_and_counts, quoted, took
from kproxy.tui.table import Cell, TableColumn


class ConnectionView(OverviewView[ConnectionSummary]):
    """See the module."""

    title: ClassVar[str] = "Connections"
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

    def things(self) -> list[ConnectionSummary]:
        """See `OverviewView`."""
        rows, matching = self.session.overviews.connections.rows(), self.session.matching
        return [each for each in rows if matching is None or each.connection_id in matching.connections]

    def unlisted(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self.session.overviews.connections.others, "older closed connections"

    def key(self, thing: ConnectionSummary) -> str:
        """See `OverviewView`."""
        return thing.connection_id

    def cells(self, thing: ConnectionSummary) -> Sequence[Cell]:
        """See `OverviewView`."""
        return [
            [("+", "response") if thing.is_open else ("-", "dim")],
            [("#" + safe(thing.connection_id.rpartition("-")[2]), "dim")],
            [(safe(thing.client), "")],
            [(safe(thing.server), "dim"), *([(" TLS", "info")] if thing.tls else [])],
            [(_who(thing), "")],
            count(thing.requests),
            [(size(thing.request_bytes), "")],
            [(size(thing.response_bytes), "")],
            self._waiting(thing),
            took(thing.p50_us),
            took(thing.p99_us),
            count(thing.refusals, "error"),
            [(f"{thing.throttled_ms:,} ms", "warning")] if thing.throttled else [],
            found(thing.findings),
        ]

    def _waiting(self, thing: ConnectionSummary) -> Cell:
        if not thing.in_flight or thing.oldest is None:
            return [(f"{thing.unanswered} never", "error")] if thing.unanswered else []
        waited = max(0, self.session.now - thing.oldest.since) // 1000
        return [(f"{thing.in_flight} {duration(waited)}", "warning")]

    def told(self, thing: ConnectionSummary) -> Text:
        """See `OverviewView`."""
        oldest = thing.oldest
        ended = f"{timestamp(thing.closed_at)} {thing.closed_how or ''} by {thing.closed_by}" if thing.closed_at else ""
        versions = (f"{safe(api)} v{',v'.join(map(str, used))}" for api, used in sorted(thing.versions.items()))
        waiting = (
            "" if oldest is None else f"{oldest.api or '?'} v{oldest.api_version}, id {oldest.correlation_id}, since "
        )
        throttle = thing.last_throttle
        return lines(
            ("connection", f"{safe(thing.connection_id)}  {safe(thing.client)} -> {safe(thing.server)}"),
            ("opened", timestamp(thing.opened_at) if thing.opened_at else "before the trace begins"),
            ("ended", safe(ended)),
            ("software", safe(f"{thing.software_name or ''} {thing.software_version or ''}".strip())),
            ("login", safe(f"{thing.sasl} {thing.sasl_error or ''}".strip()) if thing.sasl else ""),
            ("principal", safe(thing.principal or "")),
            ("oldest request", safe(waiting) + timestamp(oldest.since) if oldest else ""),
            ("versions used", "  ".join(versions)),
            ("errors", names_and_counts(thing.errors)),
            ("throttled", f"{thing.throttled} times, the last for {throttle.ms} ms" if throttle else ""),
            ("repeated findings", f"{thing.repeated:,}" if thing.repeated else ""),
            ("not inspected", f"{thing.gap_bytes:,} bytes in {thing.gaps} gaps" if thing.gaps else ""),
        )

    def open(self, thing: ConnectionSummary) -> None:
        """See `OverviewView`."""
        self.narrow(f"connection={quoted(thing.connection_id)}")


def _who(thing: ConnectionSummary) -> str:
    names = ", ".join(dict.fromkeys(safe(each) for each in thing.client_ids if each))
    software = safe(f"{thing.software_name or ''} {thing.software_version or ''}".strip())
    return "  ".join(part for part in (names + (" ..." if thing.more_client_ids else ""), software) if part)
