"""The time axis shared by all charts: buckets of equal length, with long gaps removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.derived.observed_time import slot

_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000
#: Round lengths of a bucket (us).
_STEPS = (
    1000, 10_000, 100_000, _SECOND, 5 * _SECOND, 10 * _SECOND, 30 * _SECOND, _MINUTE, 5 * _MINUTE, 10 * _MINUTE,
    30 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR, 7 * 24 * _HOUR, 28 * 24 * _HOUR,
)  # fmt: skip
#: The maximum number of buckets in a chart, and of consecutive empty buckets that are kept.
MAX_BUCKETS = 144
_MAX_EMPTY = 3
#: The maximum number of steps in the first pass; for a day, this is a resolution of 10 s.
_MAX_FINE_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Axis:
    """Buckets that start at `begins` (us since 1970, ascending) and are `step_us` long; empty without lines."""

    step_us: int
    begins: tuple[int, ...]

    def bucket(self, at: Column) -> Column:
        """Return the start of a timestamp's bucket, in us since 1970."""
        return slot(at, self.step_us)

    def places(self) -> dict[int, int]:
        """Return the positions of the buckets by their starts."""
        return {begin: position for position, begin in enumerate(self.begins)}


def axis(lines: DataFrame, first_us: int, last_us: int) -> Axis:
    """Return the finest axis on which all lines fit; the first and the last one are at `first_us` and `last_us`."""
    span = last_us - first_us
    fine_step = next((step for step in _STEPS if span / step < _MAX_FINE_STEPS), _STEPS[-1])
    bucket_starts = lines.select((F.floor(F.unix_micros("ts") / fine_step) * fine_step).alias("at")).distinct()
    times = sorted(
        row["at"] for row in bucket_starts.where(F.col("at").isNotNull()).limit(2 * _MAX_FINE_STEPS).collect()
    )
    for step in (step for step in _STEPS if step >= fine_step):
        starts = tuple(_with_short_gaps(sorted({at // step * step for at in times}), step))
        if len(starts) + sum(1 for _ in _gaps(starts, step)) <= MAX_BUCKETS:
            break
    return Axis(step, starts)


def _with_short_gaps(begins: list[int], step: int) -> Iterator[int]:
    """Yield the non-empty buckets, and the empty buckets in short gaps between them."""
    previous: int | None = None
    for begin in begins:
        if previous is not None and (begin - previous) // step - 1 <= _MAX_EMPTY:
            yield from range(previous + step, begin, step)
        yield begin
        previous = begin


def _gaps(begins: tuple[int, ...], step: int) -> Iterator[int]:
    """Return the indexes of the buckets that follow a gap."""
    return (index for index in range(1, len(begins)) if begins[index] - begins[index - 1] > step)
