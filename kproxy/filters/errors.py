"""What can be wrong with a filter."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class FilterError(ValueError):
    """A filter that cannot be read. ``text[start:end]`` is what it is about; the message says where, too."""

    def __init__(self, problem: str, start: int, end: int, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.start = start
        self.end = end

    def __str__(self) -> str:
        problem, hint = self.args
        return f"{problem} at column {self.start + 1}{f': {hint}' if hint else ''}"


def suggestion(written: str, known: Iterable[str]) -> str:
    """``did you mean 'latency'?``, or nothing when no name begins like this or is near; case does not count."""
    near = nearest(written, known)
    return f"did you mean {near!r}?" if near else ""


def nearest(written: str, known: Iterable[str]) -> str | None:
    """The name that begins like this, else one that is like it; case and leading dashes do not count."""
    begun = written.lower().lstrip("-")
    by_lower = {name.lower().lstrip("-"): name for name in sorted(known, key=len)}
    near = [name for name in by_lower if name.startswith(begun)] or get_close_matches(begun, by_lower)
    return by_lower[near[0]] if near else None
