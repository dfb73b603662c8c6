"""Regular expressions that match in linear time, for ``~`` and the wildcards of ``=``.

Python's `re` may take exponential time on a short text (``(a+)+$``), and a filter may come from a web page. This module
builds a position automaton (Glushkov): each atom of the pattern is a position, states are sets of positions, and
transitions are computed when a text needs them.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass

_MAX_POSITIONS = 500
_MAX_NESTING = 50
_MAX_MOVES = 5000
ATOM = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\[dDwWsSnrt]|\\[^A-Za-z0-9]|[^\\\[(){}*+?|]", re.DOTALL)
REPEAT = re.compile(r"(?:([*+?])|\{(\d{1,3})(,(\d{1,3})?)?\})\??")  # lazy or greedy: the result is the same
_BOUNDS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_BEGIN, _END = "begin", "end"  # input before and after the text, for ^ and $; other atoms accept one character
_FOUND = -1


class PatternError(ValueError):
    """An invalid or unsupported pattern. `position` is an index into it."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def compile_pattern(pattern: str, *, ignore_case: bool = False) -> Callable[[str], bool]:
    r"""Return a function that reports whether the pattern is found anywhere in a text.

    Supports Python's syntax without the features that need backtracking: literals, ``.`` (also line breaks), ``[...]``,
    ``\d \w \s`` and their opposites, ``* + ? {2,3}``, ``|``, ``(...)``, ``^`` and ``$`` (only the end of the text). A
    leading ``(?i)`` ignores case.

    Raises:
        PatternError: The pattern is invalid, or has look-around, back-references, named groups or ``\b``.
    """
    start = 4 if pattern.startswith("(?i)") else 0
    reader = _Reader(pattern, start, re.IGNORECASE if ignore_case or start else re.NOFLAG)
    # Values repeat from line to line, so most results are cached.
    return functools.lru_cache(maxsize=1024)(_Automaton(reader.read_pattern()).search)


def glob_pattern(glob: str) -> str:
    """Return the pattern of a glob, in which ``*`` is any text and ``?`` any character."""
    return f"^{wildcard_pattern(glob)}$"


def wildcard_pattern(text: str) -> str:
    """Return a pattern that finds a text anywhere; in the text, ``*`` is any text and ``?`` any character."""
    return re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")


@dataclass(frozen=True, slots=True)
class _Atom:
    """One character, or the beginning or end of the text."""

    accepts: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class _Sequence:
    nodes: list[_Node]


@dataclass(frozen=True, slots=True)
class _Choice:
    nodes: list[_Node]


@dataclass(frozen=True, slots=True)
class _Repeat:
    node: _Node
    minimum: int
    maximum: int | None


_Node = _Atom | _Sequence | _Choice | _Repeat


class _Reader:
    """A recursive-descent parser of the pattern."""

    def __init__(self, pattern: str, start: int, flags: re.RegexFlag) -> None:
        self._pattern = pattern
        self._position = start
        self._flags = flags | re.DOTALL
        self._depth = 0

    def read_pattern(self) -> _Node:
        node = self._read_choice()
        if self._position < len(self._pattern):
            raise PatternError("unmatched ')': use \\) for the character", self._position)
        return node

    def _next_is(self, characters: str) -> bool:
        return self._position < len(self._pattern) and self._pattern[self._position] in characters

    def _read_choice(self) -> _Node:
        branches = [self._read_sequence()]
        while self._next_is("|"):
            self._position += 1
            branches.append(self._read_sequence())
        return _Choice(branches)

    def _read_sequence(self) -> _Node:
        nodes: list[_Node] = []
        while self._position < len(self._pattern) and not self._next_is("|)"):
            nodes.append(self._read_repeated())
        return _Sequence(nodes)

    def _read_repeated(self) -> _Node:
        node = self._read_group() if self._next_is("(") else self._read_atom()
        if (repeat := REPEAT.match(self._pattern, self._position)) is None:
            return node
        sign, minimum, comma, maximum = repeat.groups()
        bounds = _BOUNDS[sign] if sign else (int(minimum), int(maximum) if maximum else None if comma else int(minimum))
        if bounds[1] is not None and bounds[1] < bounds[0]:
            raise PatternError("the second number is smaller than the first", self._position)
        self._position = repeat.end()
        return _Repeat(node, *bounds)

    def _read_group(self) -> _Node:
        start = self._position
        self._position += 3 if self._pattern.startswith("(?:", start) else 1
        if self._next_is("?"):
            raise PatternError("only (...) and (?:...) groups are supported", start)
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise PatternError("groups are nested too deeply", start)
        node = self._read_choice()
        if not self._next_is(")"):
            raise PatternError("unclosed '(': use \\( for the character", start)
        self._depth -= 1
        self._position += 1
        return node

    def _read_atom(self) -> _Node:
        start = self._position
        atom = ATOM.match(self._pattern, start)
        if atom is None:
            unexpected = self._pattern[start : start + 2] if self._next_is("\\") else self._pattern[start]
            raise PatternError(f"unexpected {unexpected!r}", start)
        self._position = atom.end()
        if atom[0] in "^$":
            return _Atom((_BEGIN if atom[0] == "^" else _END).__eq__)
        source = atom[0] if atom[0][0] in ".[\\" else re.escape(atom[0])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", FutureWarning)  # e.g. '[[', whose meaning may change in Python
                return _Atom(re.compile(source, self._flags).fullmatch)
        except (re.error, FutureWarning) as error:
            raise PatternError(str(error), start) from None


class _Automaton:
    """The automaton of a pattern. Positions are the numbers of its atoms; a set of positions is the bits of an int."""

    def __init__(self, node: _Node) -> None:
        self._accepts: list[Callable[[str], object]] = []
        self._follow: list[int] = []
        self._first, self._last, self._matches_everything = self._add_node(node)
        self._moves: dict[tuple[int, str], int] = {}

    def search(self, text: str) -> bool:
        """Whether the pattern is found in the text."""
        if self._matches_everything:
            return True
        state = self._first
        moves = self._moves
        for character in (_BEGIN, *text, _END):
            next_state = moves.get((state, character))
            state = self._next_state(state, character) if next_state is None else next_state
            if state == _FOUND:
                return True
        return False

    def _next_state(self, state: int, character: str) -> int:
        """Return the next state. It includes the first positions, because a match may start anywhere."""
        next_state = self._first
        for position in _bits(state):
            if self._accepts[position](character):
                if self._last >> position & 1:
                    next_state = _FOUND
                    break
                next_state |= self._follow[position]
        if len(self._moves) >= _MAX_MOVES:
            self._moves.clear()
        self._moves[state, character] = next_state
        return next_state

    def _add_node(self, node: _Node) -> tuple[int, int, bool]:
        """Number the atoms of a node; return its first positions, its last positions, and whether it may be empty."""
        if isinstance(node, _Atom):
            if len(self._accepts) >= _MAX_POSITIONS:
                raise PatternError("the pattern is too long", 0)
            self._accepts.append(node.accepts)
            self._follow.append(0)
            bit = 1 << (len(self._accepts) - 1)
            return bit, bit, False
        if isinstance(node, _Repeat):
            return self._add_repeated(node)
        if isinstance(node, _Choice):
            first, last, may_be_empty = 0, 0, False
            for branch in node.nodes:
                branch_part = self._add_node(branch)
                first, last, may_be_empty = (
                    first | branch_part[0],
                    last | branch_part[1],
                    may_be_empty or branch_part[2],
                )
            return first, last, may_be_empty
        result = (0, 0, True)
        for subpattern in node.nodes:
            result = self._concatenate(result, self._add_node(subpattern))
        return result

    def _add_repeated(self, node: _Repeat) -> tuple[int, int, bool]:
        result = (0, 0, True)
        copies = max(node.minimum, 1) if node.maximum is None else node.maximum
        for copy in range(1, copies + 1):
            first, last, may_be_empty = self._add_node(node.node)
            if not first:
                break  # an empty node has nothing to repeat
            if node.maximum is None and copy == copies:
                self._connect(last, first)
            result = self._concatenate(result, (first, last, may_be_empty or copy > node.minimum))
        return result

    def _concatenate(self, left: tuple[int, int, bool], right: tuple[int, int, bool]) -> tuple[int, int, bool]:
        self._connect(left[1], right[0])
        first = left[0] | right[0] if left[2] else left[0]
        last = left[1] | right[1] if right[2] else right[1]
        return first, last, left[2] and right[2]

    def _connect(self, last: int, first: int) -> None:
        for position in _bits(last):
            self._follow[position] |= first


def _bits(state: int) -> list[int]:
    return [position for position in range(state.bit_length()) if state >> position & 1]
