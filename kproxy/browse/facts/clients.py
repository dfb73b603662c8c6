"""Clients."""

from __future__ import annotations

from kproxy.browse.facts.texts import Facts, names_and_counts, software
from kproxy.browse.overviews.clients import Client
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView


def rows_in_view(session: BrowseSession, view: SessionView) -> list[Client]:
    """Return the clients that match the view's filter."""
    rows, matching = session.overviews.clients.rows(), view.matching
    return [row for row in rows if matching is None or (row.client_id, row.host) in matching.clients]


def facts(session: BrowseSession, item: Client) -> Facts:
    """Return labelled facts about a client."""
    usage = (f"{api.api} v{api.lowest}" + (f"-{api.highest}" if api.highest > api.lowest else "") for api in item.apis)
    removed_versions = (
        f"{removed.api} v{removed.version}"
        + (f" (Kafka 4 serves v{removed.least} and later)" if removed.least is not None else " (removed in Kafka 4)")
        for removed in item.old
    )
    return [
        ("client", f"{item.client_id or '(none)'}  {software(item)}  {item.host}"),
        ("Kafka 4", f"{item.verdict.value}: {item.reason}"),
        ("removed versions", ", ".join(removed_versions)),
        ("negotiates versions", "yes" if item.negotiates else "not seen"),
        ("uses", "  ".join(usage) + ("  ..." if item.more_versions else "")),
        ("errors", names_and_counts(item.errors)),
        ("repeated findings", f"{item.repeated:,}" if item.repeated else ""),
        ("last seen", session.clock.labelled(item.last_at)),
    ]
