"""Clients that request Metadata in a loop."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.derived.metadata import metadata_runs
from kproxy.spark.jobs import job


@job("clients that request Metadata in a loop: when, how fast, and the error that repeats")
def metadata_storms(lines: DataFrame) -> DataFrame:
    """Report runs of Metadata requests of one client, each less than 2 s after the previous one.

    A client is a client id on a host; its requests on all connections count together. A run is reported if ten or more
    responses had an error, or if there were ten or more requests per connection.

    Args:
        lines: Rows of TABLE; uses client, client_id, server, connection_id, request_ts, errors, topics and size of
            responses to Metadata.

    Returns:
        One row per run. Most requests first.

        - client (string): the client id, or the host if there is none
        - host (string): the host of the client
        - broker (string): the address of one of the brokers used
        - first_at (timestamp, UTC): the first request
        - last_at (timestamp, UTC): the last request
        - lasted_us (bigint, µs): the time between both
        - requests (bigint, requests): requests of the run
        - per_second (double, 1/s): mean rate of requests
        - refused (bigint, responses): responses with an error
        - error (string): the most frequent error
        - topic (string): the topic that it is about, if any
        - connections (bigint, connections): connections used
        - topics (int, topics): most in a response
        - bytes (bigint, bytes): size of all responses
        - connection_id (string): of the last request
    """
    duration_us = F.unix_micros("last_at") - F.unix_micros("first_at")
    per_second = F.when(F.col("lasted_us") > 0, (F.col("requests") - 1) * 1_000_000.0 / F.col("lasted_us"))
    return (
        metadata_runs(lines) .withColumn("lasted_us", duration_us) .select("cluster", client_name().alias("client"),
                      "host", "broker", "first_at", "last_at", "lasted_us", "requests", per_second.alias("per_second"),
                      "refused", "error", "topic", "connections", "topics", "bytes", "connection_id",
                      ) .orderBy(F.desc("requests"), "first_at", "client", "host", "cluster")
    )  # fmt: skip
