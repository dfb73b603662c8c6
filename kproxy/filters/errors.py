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


def suggestion(word: str, known_names: Iterable[str]) -> str:
    """Return ``did you mean 'latency'?``, or an empty string if no known name is similar, ignoring case."""
    nearest_name = nearest(word, known_names)
    return f"did you mean {nearest_name!r}?" if nearest_name else ""


def corrected_name(word: str, known_names: Iterable[str]) -> str | None:
    """Return the known name that differs from a word by one letter or by case, if any.

    A letter may be missing, added or different, or two neighbours swapped. Words with digits or with fewer than five
    characters are not corrected.
    """
    lowered = word.lower()
    if len(lowered) < 5 or any(character.isdecimal() for character in lowered):
        return None
    return next((name for name in known_names if _is_one_edit(lowered, name.lower())), None)


def _is_one_edit(word: str, known_word: str) -> bool:
    while word and known_word and word[0] == known_word[0]:
        word, known_word = word[1:], known_word[1:]
    while word and known_word and word[-1] == known_word[-1]:
        word, known_word = word[:-1], known_word[:-1]
    return max(len(word), len(known_word)) <= 1 or (len(word) == 2 and word == known_word[::-1])


def nearest(word: str, known_names: Iterable[str]) -> str | None:
    """Return the shortest known name that begins with `word`, else a similar one; None if there is none.

    Ignores case and leading dashes.
    """
    prefix = word.lower().lstrip("-")
    by_lower = {name.lower().lstrip("-"): name for name in sorted(known_names, key=len)}
    matches = [name for name in by_lower if name.startswith(prefix)] or get_close_matches(prefix, by_lower)
    return by_lower[matches[0]] if matches else None
