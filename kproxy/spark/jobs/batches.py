"""Batch sizes and compression of producers."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name, topic_name
from kproxy.spark.jobs import job

#: A request has fewer batches per topic, unless the trace is damaged.
_MAX_BATCHES = 1 << 20


@job("batch sizes, records per batch and compression, by client and topic")
def batches(lines: DataFrame) -> DataFrame:
    """Report the sizes of the record batches that clients write; small uncompressed batches are the most expensive.

    Args:
        lines: Rows of TABLE; uses kind, api, client_id, client and topics of Produce requests.

    Returns:
        One row per client and topic to which it wrote complete batches. Most requests first.

        - client (string): the client id, or the host if there is none
        - topic (string): the topic, or its id if the name is unknown
        - requests (bigint, requests): Produce requests with the topic
        - batches (bigint, batches): record batches in them
        - records (bigint, records): records in them
        - total_bytes (bigint, bytes): size of the batches on the wire
        - batches_per_request (double, batches): mean
        - records_per_batch (double, records): mean
        - mean_batch_bytes (double, bytes): mean
        - p50_batch_bytes (double, bytes): median, in which each batch counts with the mean of its topic in its request
        - p99_batch_bytes (double, bytes): 99th percentile, likewise
        - codecs (array<string>): compression codecs: none, gzip, snappy, lz4, zstd
        - uncompressed_share (double, 0 to 1): share of bytes in entries with no codec other than ``none``
    """
    produce_requests = lines.where((F.col("kind") == "request") & (F.col("api") == "Produce"))
    entries = produce_requests.select("cluster", client_name().alias("client"), F.explode("topics").alias("entry"))
    entries = entries.select(
        "cluster",
        "client",
        topic_name(F.col("entry")).alias("topic"),
        "entry.batches",
        "entry.records",
        "entry.bytes",
        "entry.compression",
    )
    uncompressed_bytes = F.when(F.col("compression") == F.array(F.lit("none")), F.col("bytes"))
    # One row per batch; the first row of an entry also counts for its request. Sail ignores the weight in `percentile`.
    batch_count = F.least(F.col("batches"), F.lit(_MAX_BATCHES)).cast("int")
    mean_sizes = F.array_repeat(F.col("bytes") / F.col("batches"), batch_count)

    def first_batch_value(name: str) -> Column:
        return F.when(F.col("place") == 0, F.col(name))

    grouped = (
        entries.where(F.col("batches") > 0)
        .select("*", uncompressed_bytes.alias("plain"), F.posexplode(mean_sizes).alias("place", "size"))
        .groupBy("cluster", "client", "topic")
        .agg(
            F.count_if(F.col("place") == 0).alias("requests"),
            F.sum(first_batch_value("batches")).alias("batches"),
            F.sum(first_batch_value("records")).alias("records"),
            F.sum(first_batch_value("bytes")).alias("total_bytes"),
            F.coalesce(F.sum(first_batch_value("plain")), F.lit(0)).alias("plain"),
            F.percentile("size", F.array(F.lit(0.5), F.lit(0.99))).alias("sizes"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_set(first_batch_value("compression"))))).alias("codecs"),
        )
    )
    return grouped.select(
        "cluster",
        "client",
        "topic",
        "requests",
        "batches",
        "records",
        "total_bytes",
        (F.col("batches") / F.col("requests")).alias("batches_per_request"),
        (F.col("records") / F.col("batches")).alias("records_per_batch"),
        (F.col("total_bytes") / F.col("batches")).alias("mean_batch_bytes"),
        F.col("sizes")[0].alias("p50_batch_bytes"),
        F.col("sizes")[1].alias("p99_batch_bytes"),
        "codecs",
        F.try_divide("plain", "total_bytes").alias("uncompressed_share"),
    ).orderBy(F.desc("requests"), "client", "topic", "cluster")
