"""Formats values of trace lines for people: sizes, durations, and text without control characters."""

from __future__ import annotations

from dissectors.findings import Severity
from kproxy.escaping import terminal as safe

__all__ = ["RANK", "duration", "safe", "size"]

#: Severity -> rank; higher is worse.
RANK = {severity.value: rank for rank, severity in enumerate(Severity)}

#: Larger values, which only a forged line has, are shown as this.
_LARGEST = 1 << 63


def size(count: int) -> str:
    """``512 B``, ``3.4 KB`` (1 KB is 1000 bytes)."""
    if count < 1000:
        return f"{count} B"
    value = float(min(count, _LARGEST))
    for unit in ("KB", "MB", "GB"):
        value /= 1000
        if value < 999.95 or unit == "GB":
            break
    return f"{value:.1f} {unit}"


def duration(us: int | None) -> str:
    """``850 us``, ``2.1 ms``, ``30.5 s``; an empty string for None."""
    if us is None:
        return ""
    if us < 1000:
        return f"{us} us"
    us = min(us, _LARGEST)
    return f"{us / 1000:.1f} ms" if us < 1_000_000 else f"{us / 1_000_000:.1f} s"
