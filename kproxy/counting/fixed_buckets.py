"""Counts durations in given buckets, for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class FixedBuckets:
    """Counts durations in us.

    Attributes:
        counts: The number of durations by bucket; the last one is for durations above all bounds.
        sum: The sum of all durations.
    """

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[int]) -> None:
        self._bounds = bounds  # the longest duration of each bucket
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0

    def add(self, us: int) -> None:
        """Count one duration; a negative one (the clock may have been set back) counts as 0."""
        us = max(us, 0)
        self.counts[bisect_left(self._bounds, us)] += 1
        self.sum += us
