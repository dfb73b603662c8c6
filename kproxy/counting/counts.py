"""Counts that every overview keeps: findings by severity, and error names."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from dissectors import schemas
from kproxy.counting.names import MAX_NAME_LENGTH
from kproxy.trace.formatting import RANK
from kproxy.trace.lines import ErrorEntry, FindingEntry, FindingLine

#: Different names that are counted separately, besides Kafka's. A hostile broker may send any number of unknown errors.
MAX_NAMES = 100
#: The name under which all others are counted.
OTHERS = "others"


class Severities(NamedTuple):
    """The number of findings per severity."""

    info: int = 0
    warning: int = 0
    error: int = 0

    @classmethod
    def sum(cls, several: Iterable[Severities]) -> Severities:
        """The sum of several counts."""
        return cls(*map(sum, zip(*several, strict=True)))


class SeverityCounts:
    """Counts findings by severity."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = [0] * len(RANK)

    def add(self, findings: Iterable[FindingEntry | FindingLine]) -> None:
        """Count findings. An unknown severity counts as info."""
        for finding in findings:
            self._counts[RANK.get(finding.severity, 0)] += 1

    def row(self) -> Severities:
        """The counts so far."""
        return Severities(*self._counts)


class ErrorCounts:
    """Counts responses with errors, in total and per error name; each name counts once per response."""

    __slots__ = ("_names", "responses")

    def __init__(self) -> None:
        self.responses = 0
        self._names: dict[str, int] = {}

    def add(self, errors: Iterable[ErrorEntry]) -> None:
        """Count a response with these errors (at least one)."""
        self.responses += 1
        names = self._names
        for name in {error.name[:MAX_NAME_LENGTH] for error in errors}:
            counted_name = name if name in names or len(names) < MAX_NAMES or name in _kafkas_errors() else OTHERS
            names[counted_name] = names.get(counted_name, 0) + 1

    def row(self) -> tuple[tuple[str, int], ...]:
        """(error name, number of responses), the most frequent first."""
        return most_first(self._names)

    @classmethod
    def merged(cls, several: Iterable[ErrorCounts]) -> ErrorCounts:
        """The sum of several counters."""
        total = cls()
        for each in several:
            total.responses += each.responses
            for name, count in each._names.items():
                total._names[name] = total._names.get(name, 0) + count
        return total


@functools.cache
def _kafkas_errors() -> frozenset[str]:
    return frozenset(error.name for error in schemas.errors())


def most_first(counts: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """Texts with their counts, the most frequent first."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
