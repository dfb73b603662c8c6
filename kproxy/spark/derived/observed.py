"""When each source was observed: the time that rates are divided by."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: Observed time is counted in slots of this many seconds, which begin at multiples of it.
SLOT: Final = 600
_MINUTE: Final = 60
#: Kafka closes a connection after ten minutes of silence (connections.max.idle.ms), so a source that has a connection
#: writes a line at least this often (seconds). After a longer silence nobody knows whether it was there.
_SILENCE: Final = 600


def source() -> Column:
    """Where a line is from: the node of a proxy, whatever its process id, or the name of a capture."""
    return F.regexp_replace("connection_id", "(-[0-9]+){1,2}$", "")


def slot() -> Column:
    """When the slot of a line began, in seconds since 1970."""
    at = F.unix_seconds("ts")
    return at - F.pmod(at, F.lit(SLOT))


def observed(lines: DataFrame) -> DataFrame:
    """How long each source was observed.

    A source was observed from any of its lines to the next one if that comes within ten minutes. So time before its
    first line, after its last one, and in holes of its trace does not count.

    Args:
        lines: Rows of TABLE; uses ts and connection_id of all lines.

    Returns:
        source, slot (when it began, in seconds since 1970) and seconds (above 0, up to `SLOT`).
    """
    at = F.unix_micros("ts") / 1_000_000
    minutes = (
        lines.where(F.col("ts").isNotNull() & F.col("connection_id").isNotNull())
        .groupBy(source().alias("source"), F.floor(at / _MINUTE).alias("minute"))
        .agg(F.min(at).alias("first"), F.max(at).alias("last"))
    )
    before = F.lag("last").over(Window.partitionBy("source").orderBy("minute"))
    begin = F.when(F.col("first") - before <= _SILENCE, before).otherwise(F.col("first"))
    slots = F.sequence(F.floor(F.col("begin") / SLOT), F.floor(F.col("last") / SLOT))
    seconds = F.least("last", F.col("slot") + SLOT) - F.greatest("begin", "slot")
    return (
        minutes.select("source", "last", begin.alias("begin"))
        .select("source", "begin", "last", F.explode(slots).alias("number"))
        .withColumn("slot", F.col("number") * SLOT)
        .groupBy("source", "slot")
        .agg(F.sum(seconds).alias("seconds"))
        .where(F.col("seconds") > 0)
    )
