"""The totals at the top of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.derived.clusters import with_cluster
from kproxy.spark.derived.connection_ids import source
from kproxy.spark.routine_errors import refusals

#: The maximum number of names of proxies and captures to keep.
MAX_NAMES = 500


@dataclass(frozen=True, slots=True)
class Facts:
    """Totals over all lines: counts, `wire_bytes` in frames, `missed_bytes` in gaps; first and last time (us) or None.

    `refused` counts responses with an error that is not routine; `proxies` counts proxies and captures, and `names` has
    the names of the first `MAX_NAMES`.
    """

    lines: int
    requests: int
    responses: int
    refused: int
    wire_bytes: int
    missed_bytes: int
    connections: int
    clients: int
    brokers: int
    proxies: int
    first_us: int | None
    last_us: int | None
    names: Sequence[str] = ()


def facts(lines: DataFrame) -> Facts:
    """Compute the totals in one pass."""
    is_frame = F.col("kind").isin("request", "response")
    connection_rows = (
        with_cluster(lines)
        .groupBy(
            "cluster", "connection_id", F.when(is_frame, client_name()).alias("client"), F.col("server").alias("broker")
        )
        .agg(
            F.count("*").alias("lines"),
            F.count_if(F.col("kind") == "request").alias("requests"),
            F.count_if(F.col("kind") == "response").alias("responses"),
            F.count_if(F.size(refusals()) > 0).alias("refused"),
            F.sum("size").alias("wire_bytes"),
            F.sum("bytes").alias("missed_bytes"),
            F.min(F.unix_micros("ts")).alias("first_us"),
            F.max(F.unix_micros("ts")).alias("last_us"),
        )
    )
    sums = ("lines", "requests", "responses", "refused", "wire_bytes", "missed_bytes")
    [row] = connection_rows.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums),
        F.count_distinct("connection_id").alias("connections"),
        F.count_distinct("cluster", "client").alias("clients"),
        F.count_distinct("cluster", "broker").alias("brokers"),
        F.count_distinct(source()).alias("proxies"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
        F.slice(F.array_sort(F.collect_set(source())), 1, MAX_NAMES).alias("names"),
    ).collect()
    return Facts(**row.asDict())
