"""The report as a JSON array: findings as in `kproxy explain --json`, with place and counts."""

from __future__ import annotations

import dataclasses
from typing import Any

from kproxy.outputs.findings import as_json
from kproxy.trace.encoding import encode_json
from kproxy.verdict.causes import Cause, Causes


def report(causes: Causes) -> bytes:
    """The array, one cause per line."""
    return b"[" + b",\n ".join(encode_json(_cause(cause)) for cause in causes.sorted_causes()) + b"]\n"


def _cause(cause: Cause) -> dict[str, Any]:
    made = as_json(cause.finding) | {
        "where": dataclasses.asdict(cause.place),
        "count": cause.count,
        "connections": len(cause.connections),
    }
    if cause.sentences:
        made["messages"] = list(cause.sentences)
    if cause.consequences:
        made["consequences"] = [f"{each.finding.code} {each.finding.name}" for each in cause.consequences]
    if cause.unassigned:
        made["unassigned"] = cause.unassigned
    return made
