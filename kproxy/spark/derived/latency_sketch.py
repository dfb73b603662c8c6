"""Latencies as counts in log-linear buckets. Counts of minutes can be added up, even to the percentiles of weeks.

A bucket is named by its lower bound, a latency in which all but the highest six bits are zero. So a power of two has
32 buckets, and a bound is at most 3.1 % below the latencies in its bucket; below 64 µs it is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: How many of the highest bits of a latency its bucket keeps.
_BITS: Final = 6
SHARES: Final = (0.5, 0.9, 0.99, 0.999)


def bucket(latency_us: Column) -> Column:
    """Return the lower bound of a latency's bucket (both in µs); null for null. A negative latency counts as 0."""
    latency = F.greatest(latency_us, F.lit(0))
    return F.when(latency_us.isNotNull(), latency - latency % _width(latency))


def _width(latency: Column) -> Column:
    """Return the width of the bucket of a latency."""
    bits = F.length(F.bin(latency))
    return F.pow(F.lit(2.0), F.greatest(bits - _BITS, F.lit(0))).cast("long")


def percentiles(facts: DataFrame, *by: str, shares: Sequence[float] = SHARES) -> DataFrame:
    """Return percentiles of latency over any rows of the table `facts`, whether of an hour or of a year.

    Args:
        facts: Rows of the table; uses latencies, and the columns of `by`. Rows with a topic count the same latencies as
            rows without one: select either.
        by: The columns to group by.
        shares: Which percentiles, 0 to 1.

    Returns:
        The columns of `by`, responses, and for each share a column such as p50_us, p99_us or p999_us (double, µs): the
        middle of the bucket that contains the latency at this rank (nearest rank), so at most 1.6 % off. Sorted by
        `by`.
    """
    counts = (
        facts.select(*by, F.explode("latencies").alias("entry"))
        .groupBy(*by, F.col("entry.us").alias("us"))
        .agg(F.sum("entry.responses").alias("count"))
    )
    group = Window.partitionBy(*(by or [F.lit(0)]))
    up_to_row = group.orderBy("us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = counts.select(
        *by,
        "count",
        (F.col("us") + (_width(F.col("us")) - 1) / 2).alias("middle"),
        F.sum("count").over(up_to_row).alias("rank"),
        F.sum("count").over(group).alias("total"),
    )
    names = {share: f"p{f'{share:f}'.partition('.')[2].rstrip('0').ljust(2, '0')}_us" for share in shares}
    aggregates = (
        F.min(F.when(F.col("rank") >= F.ceil(F.col("total") * share), F.col("middle"))).alias(name)
        for share, name in names.items()
    )
    table = ranked.groupBy(*by).agg(F.sum("count").alias("responses"), *aggregates)
    return table.orderBy(*by) if by else table
