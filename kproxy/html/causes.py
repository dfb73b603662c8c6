"""What is wrong: the ranked causes as JSON values."""

from __future__ import annotations

from typing import Any

from kproxy.browse.facts.request_row import request_row
from kproxy.browse.session import BrowseSession
from kproxy.html.sides import finding_json
from kproxy.trace.formatting import safe
from kproxy.verdict.cause import Cause
from kproxy.verdict.causes import Causes

#: Maximum number of causes on a page, and of connections and groups of each.
MAX_CAUSES = 100
_MAX_NAMES = 8
#: Maximum number of rows whose frame is remembered.
_MAX_REMEMBERED_ROWS = 1_000


def causes_json(causes: Causes, session: BrowseSession) -> list[dict[str, Any]]:
    """Return the causes, the most urgent first, each followed by its consequences.

    Each is a finding (`kproxy.html.sides`) with ``seen`` (how often and where), ``follows`` (the code of the cause of
    which it is a consequence), ``count``, ``first`` and ``last`` (timestamps), ``row`` (of its first frame, or
    of its finding if the frame is unknown), ``what`` (the frame at the row, if it has one), ``served`` (whether the
    requests with the findings were answered without an error), ``lasts``, ``filter`` (its
    frames), ``connections``, ``groups`` and ``sentences`` (other messages).
    """
    return [_cause_json(cause, session) for cause in causes.sorted_causes()[:MAX_CAUSES]]


def _cause_json(cause: Cause, session: BrowseSession) -> dict[str, Any]:
    location, row = cause.place, _frame_row(cause, session)
    code = cause.finding.code
    return finding_json(cause.finding) | {
        "seen": safe(cause.seen),
        "follows": safe(cause.explained_by.finding.code) if cause.explained_by else None,
        "count": cause.count,
        "first": cause.first_ts,
        "last": cause.last_ts,
        "row": cause.first_row if row is None else row,
        "what": safe(_describe_frame(cause, session, row)) if location.api and row is not None else None,
        "served": location.direction == "request" and cause.served > 0 and cause.is_harmless,
        "client": safe(location.client or ""),
        "server": safe(location.server or ""),
        "lasts": cause.lasts,
        "filter": f"finding={code}" if code.isalnum() else None,
        "connections": [safe(name) for name in list(cause.connections)[:_MAX_NAMES]],
        "groups": [safe(name) for name in sorted(cause.groups)[:_MAX_NAMES]],
        "sentences": [safe(text) for text in cause.sentences],
    }


def _describe_frame(cause: Cause, session: BrowseSession, row: int) -> str:
    """Return e.g. ``Metadata v13 request of client monitor``."""
    text = f"{cause.place.api} v{cause.place.api_version} {cause.place.direction}"
    exchange = session.exchange(row)
    client_id = exchange.frame.client_id if exchange is not None and exchange.frame is not None else None
    preposition = "to" if cause.place.direction == "response" else "of"
    return f"{text} {preposition} client {client_id}" if client_id else text


def _frame_row(cause: Cause, session: BrowseSession) -> int | None:
    """Return the row of the first frame of a cause; it is searched once, as rows keep their numbers."""
    key = cause.first_row
    if key not in session.frame_rows:
        if len(session.frame_rows) >= _MAX_REMEMBERED_ROWS:
            session.frame_rows.clear()
        session.frame_rows[key] = request_row(session, key, cause.place)
    return session.frame_rows[key]
