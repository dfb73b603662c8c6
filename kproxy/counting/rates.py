"""Event rates over the last minute and over all time, in bounded memory."""

from __future__ import annotations

from array import array

SECOND = 1_000_000_000

#: Buckets of the last minute, one per second.
MINUTE = 60
#: Seconds over which a rate is averaged: fewer make it jumpy, more make it lag.
RATE_SECONDS = 10
#: Maximum number of buckets for all time.
BUCKETS = 128

_MIN_WIDTH = SECOND // 1000
_NONE = bytes(8 * BUCKETS)


class RateClock:
    """The clock that all series of an overview share, so that they have the same buckets.

    For each event, in any order, call `move` with its time, and then `add` of each series that it belongs to.

    Attributes:
        width: Width of an all-time bucket in ns: the smallest of 1, 2, 4, ... ms with which `BUCKETS` cover all events.
    """

    def __init__(self) -> None:
        self.width = _MIN_WIDTH
        self.newest = 0  # the latest second since the epoch
        self.second = 0  # the second of the event, at most a minute ago
        self.bucket = 0  # the bucket of the event, as an index
        self._first = self._last = 0  # ns since the epoch, with the precision of a bucket and a second
        self._first_bucket = 0  # its number, counted from the epoch
        self._series: list[RateSeries] = []
        self._unchanged_from = self._unchanged_until = 0  # between these times, second and bucket stay the same

    def series(self) -> RateSeries:
        """Add a series, and return it."""
        series = RateSeries(self)
        self._series.append(series)
        return series

    def forget(self, series: RateSeries) -> None:
        """Remove a series."""
        self._series.remove(series)

    def move(self, at: int) -> None:
        """Set the time of the next event, ns since the epoch. Times of 0 or less (a damaged line) are ignored."""
        if self._unchanged_from <= at < self._unchanged_until or at <= 0:
            return
        if not self._last:
            self._first = self._last = at
            self._first_bucket = at // self.width
        second = at // SECOND
        self.newest = max(self.newest, second)
        self.second = max(second, self.newest - MINUTE)
        if not self._first_bucket <= at // self.width < self._first_bucket + BUCKETS:
            self._widen(at)
        self._first, self._last = min(self._first, at), max(self._last, at)
        bucket_number = at // self.width
        self.bucket = bucket_number - self._first_bucket
        self._unchanged_from = max(second * SECOND, bucket_number * self.width)
        self._unchanged_until = min((second + 1) * SECOND, (bucket_number + 1) * self.width)

    def _widen(self, at: int) -> None:
        """Make room for a time before the first or after the last bucket."""
        first, last = min(self._first, at), max(self._last, at)
        old_width, old_first_bucket = self.width, self._first_bucket
        while last // self.width - first // self.width >= BUCKETS:
            self.width *= 2
        # If events arrive in reverse order, put all free buckets before them, so that few events widen them again.
        self._first_bucket = first // self.width if at > self._first else last // self.width - BUCKETS + 1
        for series in self._series:
            counts = array("Q", _NONE)
            for bucket, count in enumerate(series.buckets):
                if count:
                    counts[(old_first_bucket + bucket) * old_width // self.width - self._first_bucket] += count
            series.buckets = counts

    def minute(self, *series: RateSeries, now: int) -> tuple[int, ...]:
        """Return the counts per second in the minute up to `now` (ns), the oldest first, summed over the series."""
        newest = now // SECOND
        return tuple(map(sum, zip(*(rate.minute(newest) for rate in series), strict=True)))

    def rate(self, minute: tuple[int, ...], now: int) -> float:
        """Return the events per second in a `minute`: over `RATE_SECONDS`, or since the first event if it is later."""
        begin_ns = (now // SECOND - RATE_SECONDS + 1) * SECOND
        return sum(minute[-RATE_SECONDS:]) * SECOND / max(now - max(begin_ns, self._first), SECOND)

    def mean_rate(self, count: int) -> float:
        """Return `count` events per second, from the first event of any series to the last, but at least a second."""
        return count * SECOND / max(self._last - self._first, SECOND)

    def all_time(self, *series: RateSeries) -> tuple[int, ...]:
        """Return the counts per `width` from the first event of any series to the last, summed over the series."""
        first_bucket = self._first // self.width - self._first_bucket
        end_bucket = self._last // self.width - self._first_bucket + 1
        return tuple(map(sum, zip(*(rate.buckets[first_bucket:end_bucket] for rate in series), strict=True)))


class RateSeries:
    """Counts of one kind of event. `RateClock.series` creates it."""

    __slots__ = ("_clock", "_minute", "_newest", "buckets")

    def __init__(self, clock: RateClock) -> None:
        self.buckets = array("Q", _NONE)
        self._minute = array("Q", _NONE[: 8 * MINUTE])
        self._newest = 0
        self._clock = clock

    def add(self, count: int = 1) -> None:
        """Count events at the clock's time."""
        clock = self._clock
        self.buckets[clock.bucket] += count
        if self._newest != clock.newest:
            self._advance(clock.newest)
        if clock.second > clock.newest - MINUTE:
            self._minute[clock.second % MINUTE] += count

    def take_back(self, count: int) -> None:
        """Uncount events that were counted at the clock's time or shortly before, because they have failed since."""
        clock = self._clock
        if self._newest != clock.newest:
            self._advance(clock.newest)
        for counts, newest, max_age in (
            (self.buckets, clock.bucket, clock.bucket),
            (self._minute, clock.second, MINUTE - 1 - (clock.newest - clock.second)),
        ):
            remaining = count
            for age in range(max_age + 1):
                index = (newest - age) % len(counts)
                removed = min(remaining, counts[index])
                counts[index] -= removed
                remaining -= removed
                if not remaining:
                    break

    def merge(self, other: RateSeries) -> None:
        """Add the counts of another series of the same clock."""
        newest = self._clock.newest
        self.buckets = array("Q", map(sum, zip(self.buckets, other.buckets, strict=True)))
        for series in (self, other):
            series._advance(newest)
        self._minute = array("Q", map(sum, zip(self._minute, other._minute, strict=True)))

    def _advance(self, newest: int) -> None:
        """Clear the buckets of the seconds up to `newest`."""
        for second in range(max(self._newest, newest - MINUTE) + 1, newest + 1):
            self._minute[second % MINUTE] = 0
        self._newest = newest

    def minute(self, newest: int) -> array[int]:
        """Return the counts per second in the minute that ends with `newest`, a second since the epoch."""
        oldest = (self._newest + 1) % MINUTE
        counts = self._minute[oldest:] + self._minute[:oldest]
        shift = max(-MINUTE, min(newest - self._newest, MINUTE))
        empty = array("Q", _NONE[: 8 * abs(shift)])
        return counts[shift:] + empty if shift >= 0 else empty + counts[:shift]
