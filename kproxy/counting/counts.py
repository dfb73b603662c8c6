"""Small counts that every overview keeps: findings by severity, texts by how often they came."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kproxy.counting.names import LONGEST
from kproxy.trace.formatting import RANK
from kproxy.trace.lines import ErrorEntry, FindingEntry, FindingLine

#: Different texts that are counted on their own; names of unknown errors are as many as a hostile broker likes.
MOST_TEXTS = 100
#: What the counts of further ones are under.
OTHERS = "others"


class Severities(NamedTuple):
    """How many findings there are of each severity."""

    info: int = 0
    warning: int = 0
    error: int = 0

    @classmethod
    def sum(cls, several: Iterable[Severities]) -> Severities:
        """All of these together."""
        return cls(*map(sum, zip(*several, strict=True)))


class SeverityCounts:
    """Counts findings by severity."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = [0] * len(RANK)

    def add(self, findings: Iterable[FindingEntry | FindingLine]) -> None:
        """Count these; one of a severity that nobody knows is information."""
        for finding in findings:
            self._counts[RANK.get(finding.severity, 0)] += 1

    def row(self) -> Severities:
        """What was counted."""
        return Severities(*self._counts)


class ErrorCounts:
    """Counts the responses that refuse something, and under which names; each name once a response."""

    __slots__ = ("_names", "responses")

    def __init__(self) -> None:
        self.responses = 0
        self._names: dict[str, int] = {}

    def add(self, errors: Iterable[ErrorEntry]) -> None:
        """Count the errors of a response, which has some."""
        self.responses += 1
        names = self._names
        for name in {error.name[:LONGEST] for error in errors}:
            known = name if name in names or len(names) < MOST_TEXTS else OTHERS
            names[known] = names.get(known, 0) + 1

    def row(self) -> tuple[tuple[str, int], ...]:
        """The names with how many responses have them, the most frequent first."""
        return most_first(self._names)

    @classmethod
    def merged(cls, several: Iterable[ErrorCounts]) -> ErrorCounts:
        """One that has counted what all of these have."""
        made = cls()
        for each in several:
            made.responses += each.responses
            for name, count in each._names.items():
                made._names[name] = made._names.get(name, 0) + count
        return made


def most_first(counts: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """Texts with their counts, the most frequent first."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
