"""How often something happened, over the last minute and over all time, in fixed memory."""

from __future__ import annotations

from array import array

SECOND = 1_000_000_000

#: Seconds of the last minute, a bucket each.
MINUTE = 60
#: Seconds of which a rate is the mean: over fewer it jumps, over more it lags.
RATE_SECONDS = 10
#: Buckets of all time, at most.
WHOLE = 128

_NARROWEST = SECOND // 1000
_NONE = bytes(8 * WHOLE)


class RateClock:
    """The time that all series of an overview share, so that their buckets are the same.

    Call `move` with the time of an event, in any order, then `add` of each series that it belongs to.

    Attributes:
        width: Of a bucket of all time, in ns: the narrowest of 1, 2, 4, ... ms of which `WHOLE` hold everything.
    """

    def __init__(self) -> None:
        self.width = _NARROWEST
        self.newest = 0  # the latest second, counted from the epoch
        self.second = 0  # the one of the event, a minute ago at most
        self.bucket = 0  # the one of the event, as an index
        self._first = self._last = 0  # ns since the epoch, exact to the bucket and to the second
        self._begins = 0  # the first bucket's number, counted from the epoch
        self._series: list[RateSeries] = []
        self._from = self._until = 0  # times between which nothing changes

    def series(self) -> RateSeries:
        """A new series."""
        made = RateSeries(self)
        self._series.append(made)
        return made

    def forget(self, series: RateSeries) -> None:
        """Keep a series no longer."""
        self._series.remove(series)

    def move(self, at: int) -> None:
        """Look at time `at`, ns since the epoch; one that is not after it (a damaged line) changes nothing."""
        if self._from <= at < self._until or at <= 0:
            return
        if not self._last:
            self._first = self._last = at
            self._begins = at // self.width
        second = at // SECOND
        self.newest = max(self.newest, second)
        self.second = max(second, self.newest - MINUTE)
        if not self._begins <= at // self.width < self._begins + WHOLE:
            self._widen(at)
        self._first, self._last = min(self._first, at), max(self._last, at)
        number = at // self.width
        self.bucket = number - self._begins
        self._from = max(second * SECOND, number * self.width)
        self._until = min((second + 1) * SECOND, (number + 1) * self.width)

    def _widen(self, at: int) -> None:
        """Make room for a time before the first bucket, or behind the last."""
        first, last = min(self._first, at), max(self._last, at)
        old, begins = self.width, self._begins
        while last // self.width - first // self.width >= WHOLE:
            self.width *= 2
        # What comes in reverse is given all the room there is, so that this is not done for each.
        self._begins = first // self.width if at > self._first else last // self.width - WHOLE + 1
        for series in self._series:
            counts = array("Q", _NONE)
            for bucket, count in enumerate(series.whole):
                if count:
                    counts[(begins + bucket) * old // self.width - self._begins] += count
            series.whole = counts

    def minute(self, *series: RateSeries, now: int) -> tuple[int, ...]:
        """Counts per second of the minute up to `now` (ns), the oldest first; of several series their sums."""
        newest = now // SECOND
        return tuple(map(sum, zip(*(each.minute(newest) for each in series), strict=True)))

    def rate(self, minute: tuple[int, ...], now: int) -> float:
        """How many a second of what `minute` gave: over `RATE_SECONDS`, or since the first event, if that is less."""
        begins = (now // SECOND - RATE_SECONDS + 1) * SECOND
        return sum(minute[-RATE_SECONDS:]) * SECOND / max(now - max(begins, self._first), SECOND)

    def all_time(self, *series: RateSeries) -> tuple[int, ...]:
        """Counts per `width` from the first event of any series to the last; of several series their sums."""
        begins = self._first // self.width - self._begins
        ends = self._last // self.width - self._begins + 1
        return tuple(map(sum, zip(*(each.whole[begins:ends] for each in series), strict=True)))


class RateSeries:
    """What happened of one kind; `RateClock.series` makes it."""

    __slots__ = ("_clock", "_minute", "_newest", "whole")

    def __init__(self, clock: RateClock) -> None:
        self.whole = array("Q", _NONE)
        self._minute = array("Q", _NONE[: 8 * MINUTE])
        self._newest = 0
        self._clock = clock

    def add(self, count: int = 1) -> None:
        """So many more at the clock's time."""
        clock = self._clock
        self.whole[clock.bucket] += count
        if self._newest != clock.newest:
            self._advance(clock.newest)
        if clock.second > clock.newest - MINUTE:
            self._minute[clock.second % MINUTE] += count

    def merge(self, other: RateSeries) -> None:
        """Count also what another series of the same clock has counted."""
        newest = self._clock.newest
        self.whole = array("Q", map(sum, zip(self.whole, other.whole, strict=True)))
        for series in (self, other):
            series._advance(newest)
        self._minute = array("Q", map(sum, zip(self._minute, other._minute, strict=True)))

    def _advance(self, newest: int) -> None:
        """Empty the buckets of the seconds that have begun."""
        for second in range(max(self._newest, newest - MINUTE) + 1, newest + 1):
            self._minute[second % MINUTE] = 0
        self._newest = newest

    def minute(self, newest: int) -> array[int]:
        """Counts per second of the minute that ends with a second, counted from the epoch."""
        oldest = (self._newest + 1) % MINUTE
        counts = self._minute[oldest:] + self._minute[:oldest]
        later = max(-MINUTE, min(newest - self._newest, MINUTE))
        empty = array("Q", _NONE[: 8 * abs(later)])
        return counts[later:] + empty if later >= 0 else empty + counts[:later]
