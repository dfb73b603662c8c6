"""Counts findings by severity, for all overviews."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kproxy.trace.formatting import RANK
from kproxy.trace.lines import FindingEntry, FindingLine


class Severities(NamedTuple):
    """The number of findings per severity."""

    info: int = 0
    warning: int = 0
    error: int = 0

    @classmethod
    def sum(cls, counts: Iterable[Severities]) -> Severities:
        """Return the sum of several counts."""
        return cls(*map(sum, zip(*counts, strict=True)))


class SeverityCounts:
    """Counts findings by severity."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = [0] * len(RANK)

    def add(self, findings: Iterable[FindingEntry | FindingLine]) -> None:
        """Count findings; treat an unknown severity as info."""
        for finding in findings:
            self._counts[RANK.get(finding.severity, 0)] += 1

    def row(self) -> Severities:
        """Return the counts so far."""
        return Severities(*self._counts)
