"""What is wrong: the ranked causes as JSON values."""

from __future__ import annotations

from typing import Any

from kproxy.html.sides import finding_json
from kproxy.trace.formatting import safe
from kproxy.verdict.cause import Cause
from kproxy.verdict.causes import Causes

#: Maximum number of causes on a page, and of connections and groups of each.
MAX_CAUSES = 100
_MAX_NAMES = 8


def causes_json(causes: Causes) -> list[dict[str, Any]]:
    """Return the causes, the most urgent first, each followed by its consequences.

    Each is a finding (`kproxy.html.sides`) with ``seen`` (how often and where), ``follows`` (the code of the cause of
    which it is a consequence), ``count``, ``first`` and ``last`` (timestamps), ``row`` (of its first frame), ``what``
    (the frame), ``lasts``, ``filter`` (its frames), ``connections``, ``groups`` and ``sentences`` (other messages).
    """
    return [_cause_json(cause) for cause in causes.sorted_causes()[:MAX_CAUSES]]


def _cause_json(cause: Cause) -> dict[str, Any]:
    location = cause.place
    code = cause.finding.code
    return finding_json(cause.finding) | {
        "seen": safe(cause.seen),
        "follows": safe(cause.explained_by.finding.code) if cause.explained_by else None,
        "count": cause.count,
        "first": cause.first_ts,
        "last": cause.last_ts,
        "row": cause.first_row,
        "what": safe(f"{location.api} v{location.api_version} {location.direction}") if location.api else None,
        "client": safe(location.client or ""),
        "server": safe(location.server or ""),
        "lasts": cause.lasts,
        "filter": f"finding={code}" if code.isalnum() else None,
        "connections": [safe(name) for name in list(cause.connections)[:_MAX_NAMES]],
        "groups": [safe(name) for name in sorted(cause.groups)[:_MAX_NAMES]],
        "sentences": [safe(text) for text in cause.sentences],
    }
