"""Errors in filters, with suggestions."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class FilterError(ValueError):
    """An invalid filter. ``text[start:end]`` is the faulty part; the message names its column."""

    def __init__(self, problem: str, start: int, end: int, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.start = start
        self.end = end

    def __str__(self) -> str:
        problem, hint = self.args
        return f"{problem} at column {self.start + 1}{f': {hint}' if hint else ''}"


def suggestion(written: str, known: Iterable[str]) -> str:
    """``did you mean 'latency'?``, or an empty string if no known name is similar. Ignores case."""
    near = nearest(written, known)
    return f"did you mean {near!r}?" if near else ""


def misspelt(word: str, known: Iterable[str]) -> str | None:
    """The known name from which a word of at least five characters without digits differs by one letter, or by case.

    A letter may be missing, added or different, or two neighbours swapped.
    """
    written = word.lower()
    if len(written) < 5 or any(character.isdecimal() for character in written):
        return None
    return next((name for name in known if _is_one_edit(written, name.lower())), None)


def _is_one_edit(word: str, other: str) -> bool:
    while word and other and word[0] == other[0]:
        word, other = word[1:], other[1:]
    while word and other and word[-1] == other[-1]:
        word, other = word[:-1], other[:-1]
    return max(len(word), len(other)) <= 1 or (len(word) == 2 and word == other[::-1])


def nearest(written: str, known: Iterable[str]) -> str | None:
    """The shortest known name that begins with `written`, else a similar one; None if there is none.

    Ignores case and leading dashes.
    """
    begun = written.lower().lstrip("-")
    by_lower = {name.lower().lstrip("-"): name for name in sorted(known, key=len)}
    near = [name for name in by_lower if name.startswith(begun)] or get_close_matches(begun, by_lower)
    return by_lower[near[0]] if near else None
