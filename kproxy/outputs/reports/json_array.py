"""The report as a JSON array: findings as in `kproxy explain --json`, with location and counts."""

from __future__ import annotations

from kproxy.trace.encoding import encode_json
from kproxy.verdict.as_json import cause_as_json
from kproxy.verdict.causes import Causes


def report(causes: Causes) -> bytes:
    """Return the array, one cause per line."""
    return b"[" + b",\n ".join(encode_json(cause_as_json(cause)) for cause in causes.sorted_causes()) + b"]\n"
