"""Throughput: by API, client, broker and topic."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kproxy.spark.columns import carries_records, client_name, maybe, place_in, topic_name, view
from kproxy.spark.derived.percentiles import collected, merged, weighted
from kproxy.spark.jobs import job

_ORDER = ("api", "client", "broker", "topic")
_SHARES = (0.5, 0.99)
#: What identifies a row of the table, and a direction in it.
_KIND_OF_ROW = ("cluster", "by", "name", "kind")
_US = 1_000_000


@job("requests and bytes per second, and message sizes, by API, client, broker and topic")
def throughput(lines: DataFrame) -> DataFrame:
    """Report requests and bytes per second, and sizes of frames with their length prefix; percentiles are exact.

    Args:
        lines: Rows of TABLE; uses kind, ts, api, client_id, client, server, size and topics of requests and responses.

    Returns:
        One row for each API, client, broker and topic. For a topic only record data counts, written in requests and
        read in responses. Sorted by `by`, most bytes first.

        - by (string): the kind of row: ``api``, ``client``, ``broker`` or ``topic``
        - value (string): its name; of a client without a client id its host
        - requests (bigint, requests): requests; for a topic its entries in them, of which a Fetch in a session has few
          (KIP-227)
        - responses (bigint, responses): responses, likewise
        - requests_per_s (double, 1/s): mean over the time from the first to the last line of the cluster, at least a
          second
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
    nothing = F.lit(None).cast("string")
    records = F.when(carries_records(), F.lit(1))
    entries = F.transform(
        "topics", lambda entry: _counted(nothing, nothing, nothing, topic_name(entry), entry["bytes"] * records)
    )
    frame = _counted(F.col("api"), client_name(), F.col("server"), nothing, F.col("size"))
    frames = lines.where(F.col("kind").isin("request", "response")).select(
        "cluster", "kind", "ts", F.explode(F.concat(F.array(frame), maybe(entries))).alias("counted")
    )
    times = F.min("ts").alias("first_at"), F.max("ts").alias("last_at")
    cells = collected(frames.select("*", "counted.*"), ["cluster", "kind", *_ORDER], "bytes", *times)
    viewed = (
        cells.withColumn("view", F.explode(F.array(*(view(each, F.col(each)) for each in _ORDER))))
        .withColumns({"by": F.col("view.by"), "name": F.col("view.value")})
        .where(F.col("name").isNotNull())
    )
    times = F.min("first_at").alias("first_at"), F.max("last_at").alias("last_at")
    counted = (
        weighted(merged(viewed, _KIND_OF_ROW, *times), _KIND_OF_ROW, _SHARES)
        .groupBy("cluster", "by", F.col("name").alias("value"))
        .agg(_sizes("request"), _sizes("response"), *times)
    )
    everything = Window.partitionBy("cluster")
    span_us = F.max(F.unix_micros("last_at")).over(everything) - F.min(F.unix_micros("first_at")).over(everything)
    seconds = F.greatest(span_us, F.lit(_US)) / _US
    total = F.col("request.total") + F.col("response.total")
    table = counted.select(
        "cluster",
        "by",
        "value",
        F.col("request.frames").alias("requests"),
        F.col("response.frames").alias("responses"),
        (F.col("request.frames") / seconds).alias("requests_per_s"),
        (total / seconds).alias("rate_bytes"),
        *_columns("request"),
        *_columns("response"),
        "first_at",
        "last_at",
    )
    return table.orderBy(place_in(_ORDER, "by"), F.desc("rate_bytes"), "value", "cluster")


def _counted(api: Column, client: Column, broker: Column, topic: Column, size: Column) -> Column:
    """What counts for an API, a client and a broker, or for a topic."""
    columns = {"api": api, "client": client, "broker": broker, "topic": topic, "bytes": size}
    return F.struct(*(column.alias(name) for name, column in columns.items()))


def _sizes(kind: str) -> Column:
    is_kind = F.col("kind") == kind
    once, size = is_kind & F.col("is_first"), F.when(is_kind, F.col("value"))
    return F.struct(
        F.coalesce(F.sum(F.when(once, F.col("rows"))), F.lit(0)).alias("frames"),
        F.coalesce(F.sum(F.when(once, F.col("total"))), F.lit(0)).alias("total"),
        F.percentile(size, F.array(*map(F.lit, _SHARES)), F.col("weight")).alias("quantiles"),
        F.max(size).alias("largest"),
    ).alias(kind)


def _columns(kind: str) -> list[Column]:
    return [
        F.col(f"{kind}.total").alias(f"{kind}_total_bytes"),
        F.col(f"{kind}.quantiles")[0].alias(f"{kind}_p50_bytes"),
        F.col(f"{kind}.quantiles")[1].alias(f"{kind}_p99_bytes"),
        F.col(f"{kind}.largest").alias(f"{kind}_max_bytes"),
    ]
