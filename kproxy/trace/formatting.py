"""Formats values of trace lines for display: sizes, durations, and text without control characters."""

from __future__ import annotations

from dissectors.findings import RANK
from dissectors.plain_text import duration
from kproxy.escaping import terminal as safe

__all__ = ["RANK", "duration", "safe", "size"]

#: Larger values, which only forged lines have, are shown as this one.
_LARGEST = 1 << 63


def size(count: int) -> str:
    """Return a size as text: ``512 B``, ``3.4 KB`` (1 KB is 1000 bytes)."""
    if count < 1000:
        return f"{count} B"
    value = float(min(count, _LARGEST))
    for unit in ("KB", "MB", "GB"):
        value /= 1000
        if value < 999.95 or unit == "GB":
            break
    return f"{value:.1f} {unit}"
