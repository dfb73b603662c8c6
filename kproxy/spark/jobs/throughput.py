"""Throughput: by API, client, broker, principal and topic."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import array_or_empty, carries_records, client_name, position_in, topic_name, view
from kproxy.spark.derived.observed_time import observed_durations
from kproxy.spark.jobs import job

_ORDER = ("api", "client", "broker", "principal", "topic")
_SHARES = (0.5, 0.99)
_US = 1_000_000
_HOUR_US = 3600 * _US


@job("requests and bytes per second, and message sizes, by API, client, broker, principal and topic")
def throughput(lines: DataFrame) -> DataFrame:
    """Report requests and bytes per second, and sizes of frames including the length prefix; percentiles are exact.

    Args:
        lines: Rows of TABLE; uses kind, ts, api, client_id, client, server, principal, size and topics of requests and
            responses.

    Returns:
        One row for each API, client, broker, principal and topic. For a topic only record data counts, written in
        requests and read in responses. Sorted by `by`, most bytes first.

        - by (string): the kind of row: ``api``, ``client``, ``broker``, ``principal`` or ``topic``
        - value (string): its name; for a client without a client id, its host. A client that has not logged in has no
          principal
        - requests (bigint, requests): requests; for a topic its entries in them, of which a Fetch in a session has few
          (KIP-227)
        - responses (bigint, responses): responses, likewise
        - requests_per_s (double, 1/s): mean over the time in which the cluster was observed
          (`kproxy.spark.derived.observed_time`: without pauses of more than ten minutes), at least a second
        - rate_bytes (double, bytes/s): mean of both directions, over the same time
        - request_total_bytes (bigint, bytes): sum of the sizes of requests
        - request_p50_bytes (double, bytes): median
        - request_p99_bytes (double, bytes): 99th percentile
        - request_max_bytes (bigint, bytes): maximum
        - response_total_bytes (bigint, bytes): sum of the sizes of responses
        - response_p50_bytes (double, bytes): median
        - response_p99_bytes (double, bytes): 99th percentile
        - response_max_bytes (bigint, bytes): maximum
        - first_at (timestamp, UTC): the first frame
        - last_at (timestamp, UTC): the last frame
    """
    record_factor = F.when(carries_records(), F.lit(1))
    size_column = {"bytes": F.col("size")}
    frame_views = F.array(
        view("api", F.col("api"), **size_column),
        view("client", client_name(), **size_column),
        view("broker", F.col("server"), **size_column),
        view("principal", F.col("principal"), **size_column),
    )
    entries = F.transform(
        "topics", lambda entry: view("topic", topic_name(entry), bytes=entry["bytes"] * record_factor)
    )
    frames = lines.where(F.col("kind").isin("request", "response"))
    totals = (
        frames.select("cluster", "kind", "ts", F.explode(F.concat(frame_views, array_or_empty(entries))).alias("view"))
        .select("cluster", "kind", "ts", "view.*")
        .where(F.col("value").isNotNull())
        .groupBy("cluster", "by", "value")
        .agg(
            _size_struct("request"),
            _size_struct("response"),
            F.min("ts").alias("first_at"),
            F.max("ts").alias("last_at"),
        )
    )
    seconds = F.greatest(F.col("observed_us"), F.lit(_US)) / _US  # `greatest` ignores null
    total_bytes = F.col("request.total") + F.col("response.total")
    table = totals.join(_observed_by_cluster(frames), F.col("cluster") == F.col("of"), "left").select(
        "cluster",
        "by",
        "value",
        F.col("request.frames").alias("requests"),
        F.col("response.frames").alias("responses"),
        (F.col("request.frames") / seconds).alias("requests_per_s"),
        (total_bytes / seconds).alias("rate_bytes"),
        *_size_columns("request"),
        *_size_columns("response"),
        "first_at",
        "last_at",
    )
    return table.orderBy(position_in(_ORDER, "by"), F.desc("rate_bytes"), "value", "cluster")


def _observed_by_cluster(frames: DataFrame) -> DataFrame:
    """Return how long each cluster was observed."""
    hours = observed_durations(frames, F.col("cluster"), _HOUR_US)
    return hours.groupBy(F.col("by").alias("of")).agg(F.sum("observed_us").alias("observed_us"))


def _size_struct(kind: str) -> Column:
    is_kind = F.col("kind") == kind
    size = F.when(is_kind, F.col("bytes"))
    return F.struct(
        F.count_if(is_kind).alias("frames"),
        F.coalesce(F.sum(size), F.lit(0)).alias("total"),
        F.percentile(size, F.array(*map(F.lit, _SHARES))).alias("quantiles"),
        F.max(size).alias("largest"),
    ).alias(kind)


def _size_columns(kind: str) -> list[Column]:
    return [
        F.col(f"{kind}.total").alias(f"{kind}_total_bytes"),
        F.col(f"{kind}.quantiles")[0].alias(f"{kind}_p50_bytes"),
        F.col(f"{kind}.quantiles")[1].alias(f"{kind}_p99_bytes"),
        F.col(f"{kind}.largest").alias(f"{kind}_max_bytes"),
    ]
