"""Connections closed while idle, and requests lost with them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.trackers.connection_endings import STALE_WITHIN
from dissectors.trackers.in_flight import IDLE_AFTER
from kproxy.spark.columns import client_name
from kproxy.spark.derived.connections import connections
from kproxy.spark.jobs import job

_IDLE_US, _RACE_WINDOW_US = IDLE_AFTER // 1000, STALE_WITHIN // 1000


@job("idle connections: when and by whom they are closed, and requests lost to it")
def idle_closes(lines: DataFrame) -> DataFrame:
    """Report which side closes idle connections, after how long, and lost requests (rule C016 covers a single one).

    The side with the shorter idle timeout closes the connection: if that is the broker, or a device in between, a
    request may be in transit at that moment. The client should close first (connections.max.idle.ms).

    Args:
        lines: Rows of TABLE; uses close lines, and connection_id, kind, ts, api, acks and request_ts of frames.

    Returns:
        One row per client, host, broker and closing side. Most races first.

        - client (string): the client id, or the host if there is none
        - host (string): the host of the client
        - broker (string): the address of the broker
        - closed_by (string): client or server
        - idle_closes (bigint, connections): those closed after 30 s or more without traffic and without a pending
          response
        - races (bigint, connections): those that the server closed within 10 s of the first request after such a time,
          without a response
        - shortest_idle_us (bigint, µs): the shortest idle time of both kinds before the close, or before that request
        - longest_idle_us (bigint, µs): the longest one
        - lost_apis (array<string>): APIs of the requests that `races` lost
        - last_race_at (timestamp, UTC): the last such request
        - connection_id (string): its connection
    """
    ended_connections = connections(lines).where(F.col("by").isin("client", "server"))
    silence = F.unix_micros("closed_at") - F.unix_micros("last_at")
    idle_rows = ended_connections.where((F.col("unanswered") == 0) & (silence >= _IDLE_US)).select(
        *_client_columns(), silence.alias("idle_us"), F.lit(None).cast("string").alias("api"),
        F.lit(None).cast("timestamp").alias("raced_at"), "connection_id",
    )  # fmt: skip
    all_rows = idle_rows.unionByName(_races(lines, ended_connections))
    is_race = F.col("raced_at").isNotNull()
    return (
        all_rows.groupBy("cluster", "client", "host", "broker", "closed_by")
        .agg(
            F.count_if(~is_race).alias("idle_closes"),
            F.count_if(is_race).alias("races"),
            F.min("idle_us").alias("shortest_idle_us"),
            F.max("idle_us").alias("longest_idle_us"),
            F.array_sort(F.collect_set("api")).alias("lost_apis"),
            F.max("raced_at").alias("last_race_at"),
            F.max(F.when(is_race, F.struct("raced_at", "connection_id")))["connection_id"].alias("connection_id"),
        )
        .orderBy(F.desc("races"), F.desc("idle_closes"), "client", "host", "broker", "closed_by", "cluster")
    )


def _client_columns() -> list[Column | str]:
    return [
        "cluster",
        client_name().alias("client"),
        "host",
        F.col("server").alias("broker"),
        F.col("by").alias("closed_by"),
    ]


def _races(lines: DataFrame, ended_connections: DataFrame) -> DataFrame:
    """Return the first unanswered request of each connection, if sent after an idle time and just before the close."""
    asked_us = F.unix_micros("ts")
    candidates = ended_connections.where(
        (F.col("by") == "server")
        & (F.col("unanswered") > 0)
        & (F.unix_micros("closed_at") - F.unix_micros("last_at") <= _RACE_WINDOW_US)
    )
    frames = lines.where(F.col("kind").isin("request", "response")).select(
        "connection_id", "kind", "ts", "api", "acks", "offset"
    )
    previous = F.lag("ts").over(Window.partitionBy("connection_id").orderBy("ts", "kind", "offset"))
    # Closes are few; without a broadcast, Spark would sort all frames to join them.
    closes = F.broadcast(candidates.select("connection_id", *_client_columns(), "asked_at", "closed_at"))
    candidate_frames = closes.join(frames, "connection_id")
    unanswered_requests = candidate_frames.withColumn("before", previous).where(
        (F.col("kind") == "request")
        & ~F.col("acks").eqNullSafe(0)
        & (F.col("asked_at").isNull() | (F.col("ts") > F.col("asked_at")))
    )
    first_requests = unanswered_requests.withColumn(
        "place", F.row_number().over(Window.partitionBy("connection_id").orderBy("ts", "offset"))
    )
    idle = asked_us - F.unix_micros("before")
    return first_requests.where(
        (F.col("place") == 1) & (idle >= _IDLE_US) & (F.unix_micros("closed_at") - asked_us <= _RACE_WINDOW_US)
    ).select(
        "cluster", "client", "host", "broker", "closed_by", idle.alias("idle_us"), "api", F.col("ts").alias("raced_at"),
        "connection_id",
    )  # fmt: skip
