"""Text for display: strings from peers as one harmless line, and durations."""

from __future__ import annotations

#: Longer durations, which only a forged trace has, are shown as this (us).
_MAX_DURATION = 1 << 63


def printable_text(text: str) -> str:
    """Escape control characters, direction controls and invalid UTF-8 in `text`: one line without side effects."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def duration(us: int | None) -> str:
    """Format a duration: ``850 us``, ``2.1 ms``, ``30.5 s``; an empty string for None."""
    if us is None:
        return ""
    if us < 1000:
        return f"{us} us"
    us = min(us, _MAX_DURATION)
    return f"{us / 1000:.1f} ms" if us < 1_000_000 else f"{us / 1_000_000:.1f} s"
