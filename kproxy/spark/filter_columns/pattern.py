"""Translates a filter pattern to a Java regular expression, for RLIKE."""

from __future__ import annotations

import functools
import re
import sys

from kproxy.filters.pattern import ATOM, REPEAT, PatternError

#: Character classes that mean Unicode in Python, but ASCII in Java. Upper case is the complement.
_CLASSES = {
    "d": r"\p{Nd}",
    "w": r"\p{L}\p{N}_",
    "s": r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
}
_OTHERS = {".": "(?s:.)", "^": r"(?:\A)", "$": r"(?:\z)"}
_SURROGATES = range(0xD800, 0xE000)


def java_pattern(pattern: str, *, ignore_case: bool) -> str:
    """Return a Java expression that matches what `kproxy.filters.pattern.compile_pattern` matches.

    Raises:
        PatternError: A group with repetitions or alternatives is repeated. Java tries every way to match such a group,
            which takes exponential time.
    """
    position = 4 if pattern.startswith("(?i)") else 0
    flags = re.DOTALL | (re.IGNORECASE if ignore_case or position else re.NOFLAG)
    parts = []
    ambiguous = [False]  # for each open group: whether it can match in several ways
    while position < len(pattern):
        start = position
        if pattern[position] == "|":
            parts.append("|")
            ambiguous[-1] = True
            position += 1
            continue
        if pattern[position] == "(":
            parts.append("(?:")
            ambiguous.append(False)
            position += 3 if pattern.startswith("(?:", position) else 1
            continue
        is_ambiguous = False
        if pattern[position] == ")":
            parts.append(")")
            is_ambiguous = ambiguous.pop()
            position += 1
        elif (atom := ATOM.match(pattern, position)) is not None:
            parts.append(_java_atom(atom[0], flags))
            position = atom.end()
        if (repeat := REPEAT.match(pattern, position)) is not None:
            if is_ambiguous and not (repeat[1] == "?" or repeat[2] == repeat[4] == "1"):
                raise PatternError("a repeated group must not contain repetitions or alternatives", start)
            parts.append(repeat[0])
            position = repeat.end()
            is_ambiguous |= repeat[2] is None or repeat[3] is not None
        ambiguous[-1] |= is_ambiguous
    return "".join(parts)


def _java_atom(atom: str, flags: re.RegexFlag) -> str:
    if atom in _OTHERS:
        return _OTHERS[atom]
    if atom[0] == "\\" and (class_ := _CLASSES.get(atom[1].lower())):
        return f"[{class_}]" if atom[1].islower() else f"[^{class_}]"
    return _java_class(atom if atom[0] in "[\\" else re.escape(atom), flags)


@functools.cache
def _java_class(source: str, flags: re.RegexFlag) -> str:
    """Return a Java character class for a Python atom, found by testing every character, as the syntaxes differ."""
    runs = (match.span() for match in re.compile(f"(?:{source})+", flags).finditer(_all_characters()))
    ranges = [rf"\x{{{_code_point(start):x}}}-\x{{{_code_point(end - 1):x}}}" for start, end in runs]
    return f"[{''.join(ranges)}]" if ranges else "[^\\x{0}-\\x{10ffff}]"


@functools.cache
def _all_characters() -> str:
    return "".join(chr(code) for code in range(sys.maxunicode + 1) if code not in _SURROGATES)


def _code_point(index: int) -> int:
    return index if index < _SURROGATES.start else index + len(_SURROGATES)
