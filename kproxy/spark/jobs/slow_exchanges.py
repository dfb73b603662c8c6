"""The slowest exchanges, and what was in flight before them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name, topic_names
from kproxy.spark.jobs import job

#: Rows per API: otherwise Fetch and JoinGroup, which wait by design, would fill the table.
_ROWS_PER_API = 10
_MAX_AHEAD = 10
_KEY: Final = ("connection_id", "offset", "ts", "latency_us")


@job("the slowest exchanges of each API, and what was in flight on their connection before them")
def slow_exchanges(lines: DataFrame) -> DataFrame:
    """Report the slowest exchanges of each API, with the earlier requests that the broker had to answer first.

    A broker answers the requests on a connection in order, so a slow request delays those behind it.

    Args:
        lines: Rows of TABLE; uses connection_id, ts, api, api_version, correlation_id, client_id, client, server,
            offset, topics, request_ts and latency_us of responses.

    Returns:
        At most ten rows per API. Slowest first.

        - api (string): the API
        - api_version (bigint): its version
        - latency_us (bigint, µs): from request to response
        - client (string): the client id, or the host if there is none
        - broker (string): the address of the broker
        - topics (array<string>): names of the topics
        - asked_at (timestamp, UTC): the request
        - answered_at (timestamp, UTC): the response
        - connection_id (string): the connection
        - correlation_id (bigint): of both
        - offset (bigint, bytes): of the response, in its direction of the connection
        - ahead (bigint, requests): earlier requests of the connection without a response when this one was sent;
          Produce with acks 0, which has no response, is not included
        - ahead_us (bigint, µs): how long it waited for them
        - ahead_apis (array<string>): the APIs of the first ten of them, in order
    """
    responses = lines.where(F.col("latency_us").isNotNull() & F.col("api").isNotNull())
    order = Window.partitionBy("cluster", "api").orderBy(F.desc("latency_us"), "ts", "connection_id", "offset")
    # Only the columns of the order are sorted: with all columns, the embedded engine needs a GB for 4 million lines.
    slowest_keys = (
        responses.select("cluster", "api", "latency_us", "ts", "connection_id", "offset")
        .withColumn("place", F.row_number().over(order))
        .where(F.col("place") <= _ROWS_PER_API)
        .select(*(F.col(name).alias(f"slow_{name}") for name in _KEY))
    )
    slowest = (
        F.broadcast(slowest_keys)
        .join(responses, [F.col(name).eqNullSafe(F.col(f"slow_{name}")) for name in _KEY])
        .select(
            "cluster",
            "api",
            "api_version",
            "latency_us",
            client_name().alias("client"),
            F.col("server").alias("broker"),
            topic_names().alias("topics"),
            F.col("request_ts").alias("asked_at"),
            F.col("ts").alias("answered_at"),
            "connection_id",
            "correlation_id",
            "offset",
        )
    )
    earlier_responses = responses.select(
        F.col("connection_id").alias("on"),
        F.col("offset").alias("at"),
        "request_ts",
        "ts",
        F.col("api").alias("other_api"),
    )
    # Responses are in request order. Each one is also joined with itself, so that none is dropped.
    is_same = F.col("at") == F.col("offset")
    was_ahead = (F.col("at") < F.col("offset")) & (F.col("ts") > F.col("asked_at"))
    pairs = F.broadcast(slowest).join(
        earlier_responses, (F.col("on") == F.col("connection_id")) & (is_same | was_ahead)
    )
    earlier_exchange = F.when(~is_same, F.struct("at", "other_api"))
    ahead_us = F.max(F.when(~is_same, F.unix_micros("ts"))) - F.unix_micros("asked_at")
    grouped = pairs.groupBy(*slowest.columns).agg(
        F.count(earlier_exchange).alias("ahead"),
        ahead_us.alias("ahead_us"),
        F.array_sort(F.collect_list(earlier_exchange)).alias("others"),
    )
    first_apis = F.transform(F.slice("others", 1, _MAX_AHEAD), lambda exchange: exchange["other_api"])
    return grouped.select(*slowest.columns, "ahead", "ahead_us", first_apis.alias("ahead_apis")).orderBy(
        F.desc("latency_us"), "answered_at", "connection_id", "offset", "cluster"
    )
