"""Observed time: the divisor of rates."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_MINUTE_US: Final = 60_000_000
#: Kafka closes a connection after ten minutes of inactivity (connections.max.idle.ms), so a connection's trace has a
#: line at least this often. After a longer pause it is unknown whether anything was recording.
_SILENCE_US: Final = 600_000_000


def slot(at: Column, slot_us: int) -> Column:
    """Return the start of a timestamp's slot, in us since 1970; slots start at multiples of their length."""
    return F.floor(F.unix_micros(at) / slot_us) * slot_us


def observed_durations(lines: DataFrame, by: Column, slot_us: int) -> DataFrame:
    """Return how long each slot of time was observed, by source or by another column.

    The time between two lines was observed if they are at most ten minutes apart. So the time before the first line,
    after the last line, and in longer pauses does not count.

    Args:
        lines: Rows of TABLE; uses ts and the columns of `by` in all lines. Lines in which `by` is null do not count.
        by: The column to group lines by.
        slot_us: The length of a slot.

    Returns:
        by, slot (its start, in us since 1970) and observed_us, above 0.
    """
    at = F.unix_micros("ts")
    minutes = (
        lines.select(by.alias("by"), F.floor(at / _MINUTE_US).alias("minute"), at.alias("at"))
        .where(F.col("by").isNotNull() & F.col("at").isNotNull())
        .groupBy("by", "minute")
        .agg(F.min("at").alias("first"), F.max("at").alias("last"))
    )
    previous_last = F.lag("last").over(Window.partitionBy("by").orderBy("minute"))
    begin = F.when(F.col("first") - previous_last <= _SILENCE_US, previous_last).otherwise(F.col("first"))
    slots = F.sequence(F.floor(F.col("begin") / slot_us), F.floor(F.col("last") / slot_us))
    overlap = F.least("last", F.col("slot") + slot_us) - F.greatest("begin", "slot")
    return (
        minutes.select("by", begin.alias("begin"), "last")
        .select("*", F.explode(slots).alias("number"))
        .withColumn("slot", F.col("number") * slot_us)
        .groupBy("by", "slot")
        .agg(F.sum(overlap).alias("observed_us"))
        .where(F.col("observed_us") > 0)
    )
