"""Percentiles of any number of durations in bounded memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate, chain, zip_longest

#: Base-2 logarithm of the buckets per octave. Durations below 2 ** (_BITS + 1) us have a bucket each.
_BITS = 5
#: Longer durations (12 days, in us) are counted as this. `max` is still exact.
MAX_DURATION = (1 << 40) - 1
#: Up to this number, durations are kept as they are; beyond it, they are counted in buckets.
_EXACT = 128
#: The number of buckets grows in steps of this.
_STEP = 128


class Histogram:
    """Counts durations in buckets that are at most 1/32 of their values wide, like HdrHistogram.

    Percentiles of up to 128 durations are exact, and so are those up to 63 us; others are the middle of a bucket, at
    most 1.6 % (1/64) off, and never outside the range of the counted durations. There are at most 1,152 buckets of 4
    bytes, and none above the longest duration.

    Source: http://hdrhistogram.org (buckets that are linear within an octave).
    """

    __slots__ = ("_counts", "_exact_durations", "_min", "count", "max")

    def __init__(self) -> None:
        self.count = 0
        self.max = 0  # us
        self._min = MAX_DURATION  # us
        self._exact_durations: array[int] | None = array("Q")
        self._counts = array("I")

    def add(self, us: int) -> None:
        """Count one duration; a negative one counts as 0."""
        if us > self.max:
            self.max = us
        us = 0 if us < 0 else MAX_DURATION if us > MAX_DURATION else us
        self.count += 1
        if (exact_durations := self._exact_durations) is not None:
            exact_durations.append(us)
            if self.count > _EXACT:
                self._add_to_buckets(exact_durations)
            return
        if us < self._min:
            self._min = us
        shift = us.bit_length() - _BITS - 1
        bucket = us if shift <= 0 else (shift << _BITS) + (us >> shift)
        try:
            self._counts[bucket] += 1
        except (IndexError, OverflowError):
            self._count(bucket)

    def _add_to_buckets(self, durations: Iterable[int]) -> None:
        """Switch from exact durations to buckets, and count these durations in them."""
        self._exact_durations = None
        for us in durations:
            self._min = min(self._min, us)
            self._count(_bucket(us))

    def _count(self, bucket: int) -> None:
        try:
            self._counts[bucket] += 1
        except (IndexError, OverflowError):
            self._extend(bucket)
            self._counts[bucket] += 1

    def _extend(self, bucket: int) -> None:
        """Make room for a count: more buckets, or 8-byte counters once one has reached 2 ** 32."""
        missing_buckets = (bucket // _STEP + 1) * _STEP - len(self._counts)
        if missing_buckets > 0:
            self._counts.frombytes(bytes(missing_buckets * self._counts.itemsize))
        else:
            self._counts = array("Q", self._counts)

    def percentiles(self, *shares: float) -> tuple[int | None, ...]:
        """Return, for each share (0 to 1), the duration in us that this share of durations does not exceed.

        All are None if there are no durations. The nearest rank is used: the share 0.5 of two durations is the lower
        one.
        """
        if not self.count:
            return (None,) * len(shares)
        ranks = [max(1, -int(-share * self.count // 1)) for share in shares]
        if self._exact_durations is not None:
            sorted_durations = sorted(self._exact_durations)
            return tuple(sorted_durations[rank - 1] for rank in ranks)
        cumulative_counts = list(accumulate(self._counts))
        return tuple(max(self._min, min(_middle(bisect_left(cumulative_counts, rank)), self.max)) for rank in ranks)

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """Return the sum of several histograms."""
        total = cls()
        all_histograms = list(histograms)
        total.count = sum(histogram.count for histogram in all_histograms)
        total.max = max((histogram.max for histogram in all_histograms), default=0)
        total._min = min((histogram._min for histogram in all_histograms), default=MAX_DURATION)
        total._counts = array(
            "Q", map(sum, zip_longest(*(histogram._counts for histogram in all_histograms), fillvalue=0))
        )
        exact_durations = array(
            "Q", chain.from_iterable(histogram._exact_durations or () for histogram in all_histograms)
        )
        if len(exact_durations) == total.count and total.count <= _EXACT:
            total._exact_durations = exact_durations
        else:
            total._add_to_buckets(exact_durations)
        return total


def _bucket(us: int) -> int:
    shift = us.bit_length() - _BITS - 1
    return us if shift <= 0 else (shift << _BITS) + (us >> shift)


def _middle(bucket: int) -> int:
    """Return the middle of a bucket, in us."""
    shift = (bucket >> _BITS) - 1
    return bucket if shift <= 0 else ((bucket - (shift << _BITS)) << shift) + (1 << shift) // 2
