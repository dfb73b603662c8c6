"""Events per minute on a connection, for rules about high rates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.sentences import host

#: The number of requests per minute on one connection that counts as a high rate: ten per second.
BUSY: Final = 600


class BusyCondition(NamedTuple):
    """What makes a minute of a connection busy.

    Args:
        among: The frames that count; null counts as false.
        hit: The condition on them; null counts as false.
        least: Minimum number of hits in a minute.
        share: Minimum share (0 to 1) of hits among all frames that count in that minute.
    """

    among: Column
    hit: Column
    least: int = BUSY
    share: float = 0


def busy_minutes(lines: DataFrame, conditions: Mapping[str, BusyCondition]) -> DataFrame:
    """Return the clients and brokers with minutes (UTC) in which many frames on a connection satisfy a condition.

    All conditions are counted in one pass.

    Args:
        lines: Rows of TABLE.
        conditions: The conditions by name.

    Returns:
        One row per name, client and broker: name, cluster, client, host, broker, findings (such minutes), hits and
        frames (of the minute with the most hits), first_at and last_at (frames of such minutes) and connection_id (of
        the worst minute).
    """
    ids = ("cluster", "client_id", "client", "server", "connection_id")
    is_counted = reduce(or_, (F.coalesce(condition.among, F.lit(False)) for condition in conditions.values()))
    minutes = (
        lines.where(is_counted)
        .groupBy(*ids, F.date_trunc("minute", "ts").alias("minute"))
        .agg(*(_count_hits(condition).alias(name) for name, condition in conditions.items()))
    )
    entries = [F.struct(F.lit(name).alias("name"), F.col(name).alias("counted")) for name in conditions]
    is_busy = [
        (F.col("name") == name)
        & (F.col("hits") >= condition.least)
        & (F.col("hits") >= condition.share * F.col("frames"))
        for name, condition in conditions.items()
    ]
    return (
        minutes.select(*ids, F.explode(F.array(*entries)).alias("entry"))
        .select(*ids, "entry.name", "entry.counted.*")
        .where(reduce(or_, is_busy))
        .groupBy(
            "name",
            "cluster",
            client_name().alias("client"),
            host(F.col("client")).alias("host"),
            F.col("server").alias("broker"),
        )
        .agg(
            F.count("*").alias("findings"),
            F.max(F.struct("hits", "frames", "connection_id")).alias("worst"),
            F.min("from").alias("first_at"),
            F.max("to").alias("last_at"),
        )
        .select("*", "worst.*")
        .drop("worst")
    )


def _count_hits(condition: BusyCondition) -> Column:
    return F.struct(
        F.count_if(condition.among).alias("frames"),
        F.count_if(condition.among & condition.hit).alias("hits"),
        F.min(F.when(condition.among, F.col("ts"))).alias("from"),
        F.max(F.when(condition.among, F.col("ts"))).alias("to"),
    )
