"""Connection churn: clients that reconnect frequently."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.derived.connections import connections as connections_of
from kproxy.spark.jobs import job

#: A connection that lives less than this was not worth its handshake: clients normally keep connections for minutes.
_SHORT_US = 10_000_000


@job("connection churn: how often clients connect, how long they stay, and who closes")
def connections(lines: DataFrame) -> DataFrame:
    """Report how many connections a client opens to a broker, and how they are used.

    Args:
        lines: Rows of TABLE; uses open and close lines, and connection_id, client, server, client_id and ts of frames.

    Returns:
        One row per client, host and broker. Highest peak first, then most connections.

        - client (string): the client id, or the host if there is none
        - host (string): the host of the client
        - broker (string): the address of the broker
        - connections (bigint, connections): all connections
        - opened (bigint, connections): those opened during the recording
        - peak_a_minute (bigint, connections): most of these in one minute (UTC)
        - peak_at (timestamp, UTC): the first such minute
        - short (bigint, connections): those that lived less than 10 s
        - p50_life_us (double, µs): median lifetime
        - unused (bigint, connections): those without a request
        - per_connection (double, requests): mean number of requests
        - by_client (bigint, connections): those that the client closed
        - by_broker (bigint, connections): those that the broker closed
        - by_proxy (bigint, connections): those that the proxy closed
        - resets (bigint, connections): those of all that were reset
        - unanswered (bigint, requests): requests without a response at the end
    """
    minute = F.date_trunc("minute", "opened_at")
    lifetime = F.unix_micros("closed_at") - F.unix_micros("opened_at")
    lifetimes = connections_of(lines).select(
        "cluster", client_name().alias("client"), "host", F.col("server").alias("broker"), minute.alias("minute"),
        lifetime.alias("life_us"), "requests", "unanswered", "by", "how", "opened_at",
    )  # fmt: skip
    same_minute = Window.partitionBy("cluster", "client", "host", "broker", "minute")
    opened = F.col("opened_at").isNotNull()
    peak = F.when(opened, F.struct((-F.count("*").over(same_minute)).alias("less"), "minute"))
    return (
        lifetimes.withColumn("peak", peak) .groupBy("cluster", "client", "host",
                             "broker") .agg(F.count("*").alias("connections"), F.count("opened_at").alias("opened"),
                             F.min("peak").alias("peak"), F.count_if(F.col("life_us") < _SHORT_US).alias("short"),
                             F.percentile("life_us", F.lit(0.5)).alias("p50_life_us"),
                             F.count_if(F.col("requests") == 0).alias("unused"),
                             F.mean("requests").alias("per_connection"), _closed_by("client").alias("by_client"),
                             _closed_by("server").alias("by_broker"), _closed_by("proxy").alias("by_proxy"),
                             F.count_if(F.col("how") == "reset").alias("resets"),
                             F.sum("unanswered").alias("unanswered"), ) .select("cluster", "client", "host", "broker",
                             "connections", "opened", F.coalesce(-F.col("peak.less"), F.lit(0)).alias("peak_a_minute"),
                             F.col("peak.minute").alias("peak_at"), "short", "p50_life_us", "unused", "per_connection",
                             "by_client", "by_broker", "by_proxy", "resets", "unanswered",
                             ) .orderBy(F.desc("peak_a_minute"), F.desc("connections"), "client", "host", "broker",
                             "cluster")
    )  # fmt: skip


def _closed_by(side: str) -> Column:
    return F.count_if(F.col("by") == side)
