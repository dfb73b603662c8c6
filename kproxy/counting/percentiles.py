"""Percentiles of durations in fixed memory, however many there are."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate, zip_longest

#: Buckets of an octave, as a power of two; below twice as many microseconds each has a bucket of its own.
_BITS = 5
#: Durations above this (12 days, in us) are counted as this; `max` is exact all the same.
LONGEST = (1 << 40) - 1
#: Buckets that are added at once.
_STEP = 128


class Histogram:
    """Counts durations in buckets whose width is at most 1/32 of what they hold, as HdrHistogram does.

    Up to 63 us percentiles are exact, above they are the middle of a bucket: at most 1.6 % off (1/64). It has 1,152
    buckets at most, 4 bytes each, and none for what is longer than all it was given.

    Source: http://hdrhistogram.org (buckets that are linear within an octave).
    """

    __slots__ = ("_counts", "count", "max")

    def __init__(self) -> None:
        self.count = 0
        self.max = 0  # us
        self._counts = array("I")

    def add(self, us: int) -> None:
        """Count one duration; below 0 counts as 0."""
        if us > self.max:
            self.max = us
        us = 0 if us < 0 else LONGEST if us > LONGEST else us
        shift = us.bit_length() - _BITS - 1
        bucket = us if shift <= 0 else (shift << _BITS) + (us >> shift)
        self.count += 1
        try:
            self._counts[bucket] += 1
        except (IndexError, OverflowError):
            self._extend(bucket)
            self._counts[bucket] += 1

    def _extend(self, bucket: int) -> None:
        """Make room for one more in that bucket: more buckets, or wider ones after four thousand million."""
        missing = (bucket // _STEP + 1) * _STEP - len(self._counts)
        if missing > 0:
            self._counts.frombytes(bytes(missing * self._counts.itemsize))
        else:
            self._counts = array("Q", self._counts)

    def percentiles(self, *shares: float) -> tuple[int | None, ...]:
        """For each share (0 to 1) the duration in us that this share of all do not exceed; None if there are none.

        The rank is the nearest one, so a share of 0.5 of two durations is the lower one.
        """
        if not self.count:
            return (None,) * len(shares)
        totals = list(accumulate(self._counts))
        return tuple(
            min(_middle(bisect_left(totals, max(1, -int(-share * self.count // 1)))), self.max) for share in shares
        )

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """One that has counted what all of these have."""
        made = cls()
        several = list(histograms)
        made.count = sum(each.count for each in several)
        made.max = max((each.max for each in several), default=0)
        made._counts = array("Q", map(sum, zip_longest(*(each._counts for each in several), fillvalue=0)))
        return made


def _middle(bucket: int) -> int:
    """What stands for the durations in a bucket, in us."""
    shift = (bucket >> _BITS) - 1
    return bucket if shift <= 0 else ((bucket - (shift << _BITS)) << shift) + (1 << shift) // 2
