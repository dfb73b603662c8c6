"""Facts per minute, which add up: stored once, they answer later questions without the lines."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import array_or_empty, carries_records, client_name, is_decoded, topic_name
from kproxy.spark.derived.latency_sketch import bucket
from kproxy.spark.jobs import job

_KEY: Final = ("cluster", "minute", "api", "client", "principal", "broker", "topic")
_SUMS: Final = (
    "requests", "responses", "decoded", "failed", "request_bytes", "response_bytes", "records", "throttle_us",
    "latency_us",
)  # fmt: skip


@job("counts, bytes, errors and latencies per minute, which add up over any time; for storage")
def facts(lines: DataFrame) -> DataFrame:
    """Report what happened in each minute, as sums: rows of any times, days or machines can be added.

    It is computed only with ``--out`` or ``--job facts``. Latencies are counts in log-linear buckets, so percentiles of
    days come from stored rows: `kproxy.spark.percentiles`, or docs/duckdb.md in SQL.

    Args:
        lines: Rows of TABLE; uses kind, ts, api, client_id, client, server, principal, size, topics, latency_us,
            errors, throttle_time_ms and not_decoded of requests and responses.

    Returns:
        One row per minute, API, client, principal, broker and topic. Rows without a topic count each frame once. Rows
        with a topic count frames for each topic that they name: add rows of one kind only. Sorted by time.

        - minute (timestamp, UTC): the start of the minute, of the frame's own time
        - api (string): the API
        - client (string): the client id, or the host if there is none
        - principal (string): the principal; null if none has logged in
        - broker (string): the address of the broker
        - topic (string): the topic, or its id if the name is unknown; null in rows of frames
        - requests (bigint, requests): requests
        - responses (bigint, responses): responses
        - decoded (bigint, responses): those that could be decoded
        - failed (bigint, responses): decoded ones with an error, of any topic
        - request_bytes (bigint, bytes): size of requests; for a topic, its record data in Produce requests
        - response_bytes (bigint, bytes): size of responses; for a topic, its record data in fetch responses
        - records (bigint, records): records written by Produce requests, or read by fetch responses
        - throttle_us (bigint, µs): sum of throttle times
        - latency_us (bigint, µs): sum of latencies, for means
        - max_latency_us (bigint, µs): the largest latency; null without one
        - latencies (array<struct<us:bigint,responses:bigint>>): responses by latency: `us` is the latency (µs) with all
          but its highest six bits set to zero, at most 3.1 % less than it
    """
    is_request, has_records = F.col("kind") == "request", carries_records()
    records = F.aggregate(
        array_or_empty(F.col("topics")), F.lit(0).cast("long"),
        lambda total, entry: total + F.coalesce(entry["records"], F.lit(0)),
    )  # fmt: skip
    frame_facts = _count_struct(F.lit(None).cast("string"), F.col("size"), F.when(has_records, records))
    topic_facts = F.transform(
        "topics",
        lambda entry: _count_struct(
            topic_name(entry), F.when(has_records, entry["bytes"]), F.when(has_records, entry["records"])
        ),
    )
    frames = lines.where(F.col("kind").isin("request", "response") & F.col("api").isNotNull()).select(
        "cluster",
        F.date_trunc("minute", "ts").alias("minute"),
        "api",
        client_name().alias("client"),
        "principal",
        F.col("server").alias("broker"),
        is_request.alias("asks"),
        is_decoded().alias("decoded"),
        (is_decoded() & (F.size(array_or_empty(F.col("errors"))) > 0)).alias("failed"),
        (F.coalesce("throttle_time_ms", F.lit(0)) * 1000).alias("throttle_us"),
        F.greatest("latency_us", F.lit(0)).alias("latency_us"),
        F.explode(F.concat(F.array(frame_facts), _merge_topics(array_or_empty(topic_facts)))).alias("counted"),
    )
    request_count, response_count = F.col("asks").cast("long"), (~F.col("asks")).cast("long")
    by_bucket = (
        frames.select("*", "counted.*", bucket(F.when(~F.col("asks"), F.col("latency_us"))).alias("us"))
        .groupBy(*_KEY, "us")
        .agg(
            F.sum(request_count).alias("requests"),
            F.sum(response_count).alias("responses"),
            F.count_if("decoded").alias("decoded"),
            F.count_if("failed").alias("failed"),
            F.sum(request_count * F.col("bytes")).alias("request_bytes"),
            F.sum(response_count * F.col("bytes")).alias("response_bytes"),
            F.sum("records").alias("records"),
            F.sum(response_count * F.col("throttle_us")).alias("throttle_us"),
            F.sum(response_count * F.coalesce("latency_us", F.lit(0))).alias("latency_us"),
            F.max(F.when(~F.col("asks"), F.col("latency_us"))).alias("max_latency_us"),
        )
    )
    entry = F.when(F.col("us").isNotNull(), F.struct("us", "responses"))
    return (
        by_bucket.groupBy(*_KEY)
        .agg(
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMS),
            F.max("max_latency_us").alias("max_latency_us"),
            F.array_sort(F.collect_list(entry)).alias("latencies"),
        )
        .orderBy("minute", *_KEY[2:], "cluster")
    )


def _count_struct(topic: Column, size: Column, records: Column) -> Column:
    columns = {"topic": topic, "bytes": F.coalesce(size, F.lit(0)), "records": F.coalesce(records, F.lit(0))}
    return F.struct(
        *(column.cast("string" if name == "topic" else "long").alias(name) for name, column in columns.items())
    )


def _merge_topics(entries: Column) -> Column:
    """Return one entry per topic: a broker may split a topic into several entries, which is rare."""
    names = F.array_distinct(F.transform(entries, lambda entry: entry["topic"]))

    def sum_of(name: Column, key: str) -> Column:
        own_entries = F.filter(entries, lambda entry: entry["topic"] == name)
        return F.aggregate(own_entries, F.lit(0).cast("long"), lambda so_far, entry: so_far + entry[key])

    merged = F.transform(
        F.array_compact(names), lambda name: _count_struct(name, sum_of(name, "bytes"), sum_of(name, "records"))
    )
    return F.when(F.size(entries) == F.size(F.array_compact(names)), entries).otherwise(merged)
