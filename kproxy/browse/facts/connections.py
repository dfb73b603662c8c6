"""Connections."""

from __future__ import annotations

from kproxy.browse.facts.texts import Facts, names_and_counts, software
from kproxy.browse.overviews.connection import ConnectionSummary
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.trace.timestamps import timestamp


def rows_in_view(session: BrowseSession, view: SessionView) -> list[ConnectionSummary]:
    """Return the connections that match the view's filter."""
    rows, matching = session.overviews.connections.rows(), view.matching
    return [row for row in rows if matching is None or row.connection_id in matching.connections]


def client_ids(item: ConnectionSummary) -> str:
    """Return the client ids, separated by commas; empty if none was sent."""
    return (
        ", ".join(dict.fromkeys(client_id for client_id in item.client_ids if client_id))
        + " ..." * item.more_client_ids
    )


def waiting_time_us(session: BrowseSession, item: ConnectionSummary) -> int | None:
    """Return how long the oldest request has been waiting; None if no request is waiting."""
    return None if not item.in_flight or item.oldest is None else max(0, session.now - item.oldest.since) // 1000


def facts(session: BrowseSession, item: ConnectionSummary) -> Facts:
    """Return labelled facts about a connection."""
    clock, throttle = session.clock, item.last_throttle
    oldest = item.oldest if item.in_flight else None
    late_response = session.source.late.get(item.connection_id) if oldest is not None else None
    if late_response is not None and oldest is not None and late_response.ts != timestamp(oldest.since):
        late_response = None  # that line is about an earlier request, which has been answered
    oldest_request = "" if oldest is None else f"{oldest.api or '?'} v{oldest.api_version}, id {oldest.correlation_id}"
    versions = (f"{api} v{',v'.join(map(str, numbers))}" for api, numbers in sorted(item.versions.items()))
    return [
        ("connection", f"{item.connection_id}  {item.client} -> {item.server}{'  TLS' if item.tls else ''}"),
        ("opened", clock.labelled(item.opened_at) if item.opened_at else "before the trace begins"),
        ("ended", f"{clock.labelled(item.closed_at)} {_closing_text(item)}".strip() if item.closed_at else ""),
        ("software", software(item)),
        ("login", f"{item.sasl} {item.sasl_error or ''}".strip() if item.sasl else ""),
        ("principal", item.principal or ""),
        ("client instance", item.client_instance_id or ""),
        ("oldest request", f"{oldest_request}, since {clock.labelled(oldest.since)}" if oldest is not None else ""),
        ("late", f"{late_response.wait}: {late_response.why}" if late_response is not None else ""),
        ("versions used", "  ".join(versions)),
        ("errors", names_and_counts(item.errors)),
        ("throttled", f"{item.throttled} times, the last for {throttle.ms} ms" if throttle else ""),
        ("repeated findings", f"{item.repeated:,}" if item.repeated else ""),
        ("not inspected", f"{item.gap_bytes:,} bytes in {item.gaps} gaps" if item.gaps else ""),
    ]


def _closing_text(item: ConnectionSummary) -> str:
    """Return how and by whom a connection was closed, e.g. ``fin by client``; no one at the end of a capture."""
    return " ".join(filter(None, (item.closed_how, f"by {item.closed_by}" if item.closed_by else None)))
