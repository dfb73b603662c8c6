"""Throughput: by API, client, broker and topic."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kproxy.spark.columns import carries_records, client_name, maybe, place_in, topic_name, view
from kproxy.spark.jobs import job

_ORDER = ("api", "client", "broker", "topic")
_US = 1_000_000


@job("requests and bytes per second, and message sizes, by API, client, broker and topic")
def throughput(lines: DataFrame) -> DataFrame:
    """Report requests and bytes per second, and sizes of frames with their length prefix; percentiles are exact.

    Args:
        lines: Rows of TABLE; uses kind, ts, api, client_id, client, server, size and topics of requests and responses.

    Returns:
        One row for each API, client (its host if it has no client id), broker and topic: `by` is the kind, `value` the
        name. `requests` and `responses` count frames, for a topic its entries in them, of which a Fetch in a session
        has few (KIP-227). `request_*_bytes` and `response_*_bytes` are the sum, percentiles and maximum of their sizes;
        for a topic only record data counts, written in requests and read in responses. `requests_per_s` and
        `rate_bytes` (per second, both directions) are means over the whole time of the cluster's lines, at least a
        second; `first_at` and `last_at` are the first and last frame. Sorted by `by`, most bytes first.
    """
    records = F.when(carries_records(), F.lit(1))
    views = F.concat(
        F.array(
            view("api", F.col("api"), size=F.col("size")),
            view("client", client_name(), size=F.col("size")),
            view("broker", F.col("server"), size=F.col("size")),
        ),
        maybe(F.transform("topics", lambda entry: view("topic", topic_name(entry), size=entry["bytes"] * records))),
    )
    frames = lines.where(F.col("kind").isin("request", "response")).select(
        "cluster", "kind", "ts", F.explode(views).alias("view")
    )
    counted = (
        frames.where(F.col("view.value").isNotNull())
        .groupBy("cluster", "view.by", "view.value")
        .agg(
            F.count_if(F.col("kind") == "request").alias("requests"),
            F.count_if(F.col("kind") == "response").alias("responses"),
            _sizes("request"),
            _sizes("response"),
            F.min("ts").alias("first_at"),
            F.max("ts").alias("last_at"),
        )
    )
    everything = Window.partitionBy("cluster")
    span_us = F.max(F.unix_micros("last_at")).over(everything) - F.min(F.unix_micros("first_at")).over(everything)
    seconds = F.greatest(span_us, F.lit(_US)) / _US
    total = F.col("request.total") + F.col("response.total")
    table = counted.select(
        "cluster",
        "by",
        "value",
        "requests",
        "responses",
        (F.col("requests") / seconds).alias("requests_per_s"),
        (total / seconds).alias("rate_bytes"),
        *_columns("request"),
        *_columns("response"),
        "first_at",
        "last_at",
    )
    return table.orderBy(place_in(_ORDER, "by"), F.desc("rate_bytes"), "value", "cluster")


def _sizes(kind: str) -> Column:
    size = F.when(F.col("kind") == kind, F.col("view.size"))
    return F.struct(
        F.coalesce(F.sum(size), F.lit(0)).alias("total"),
        F.percentile(size, F.array(F.lit(0.5), F.lit(0.99))).alias("quantiles"),
        F.max(size).alias("largest"),
    ).alias(kind)


def _columns(kind: str) -> list[Column]:
    return [
        F.col(f"{kind}.total").alias(f"{kind}_total_bytes"),
        F.col(f"{kind}.quantiles")[0].alias(f"{kind}_p50_bytes"),
        F.col(f"{kind}.quantiles")[1].alias(f"{kind}_p99_bytes"),
        F.col(f"{kind}.largest").alias(f"{kind}_max_bytes"),
    ]
