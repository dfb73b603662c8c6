"""Events per minute on a connection, for rules about high rates."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.sentences import host

#: This many requests per minute on one connection are a high rate: ten per second.
BUSY: Final = 600


def busy_minutes(frames: DataFrame, hit: Column, *, least: int = BUSY, share: float = 0) -> DataFrame:
    """Return the clients and brokers with minutes (UTC) in which many frames of a connection satisfy `hit`.

    Args:
        frames: Rows of TABLE, frames only.
        hit: The condition; null counts as false.
        least: Minimum number of hits in a minute.
        share: Minimum share (0 to 1) of hits among all frames of that minute.

    Returns:
        One row per client and broker: cluster, client, host, broker, findings (such minutes), hits and frames (of the
        minute with most hits), first_at and last_at (frames of such minutes) and connection_id (of the worst minute).
    """
    each = frames.groupBy(
        "cluster", "client_id", "client", "server", "connection_id", F.date_trunc("minute", "ts")
    ).agg(
        F.count("*").alias("frames"), F.count_if(hit).alias("hits"), F.min("ts").alias("from"), F.max("ts").alias("to")
    )
    return (
        each.where((F.col("hits") >= least) & (F.col("hits") >= share * F.col("frames")))
        .groupBy(
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
