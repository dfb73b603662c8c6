"""Hot partitions, which have more than their share of a topic."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kproxy.spark.columns import carries_records, topic_name
from kproxy.spark.jobs import job


@job("bytes written to and read from each partition, compared with its topic's other partitions")
def partitions(lines: DataFrame) -> DataFrame:
    """Report how evenly the partitions of a topic are used.

    Args:
        lines: Rows of TABLE; uses kind, api and topics of requests and responses.

    Returns:
        One row per topic and partition of a topic with record data written or read. The higher of the two skews first,
        then most bytes.

        - topic (string): the topic, or its id if the name is unknown
        - partition (bigint): the number of the partition
        - written_bytes (bigint, bytes): record data in Produce requests
        - written_share (double, 0 to 1): share of the topic's total; null if that is 0
        - written_skew (double, multiples): `written_bytes` divided by the mean of all partitions of the topic named in
          any frame, including Metadata; null likewise
        - read_bytes (bigint, bytes): record data in fetch responses
        - read_share (double, 0 to 1): as `written_share`
        - read_skew (double, multiples): as `written_skew`
    """
    entries = lines.where(F.col("kind").isin("request", "response")).select(
        "cluster", "kind", carries_records().alias("carries"), F.explode("topics").alias("entry")
    )
    partition_structs = F.transform(
        "entry.partitions",
        lambda number, index: F.struct(number.alias("partition"), F.get("entry.partition_bytes", index).alias("bytes")),
    )
    entries_by_partition = entries.select(
        "cluster",
        "kind",
        "carries",
        topic_name(F.col("entry")).alias("topic"),
        F.explode(partition_structs).alias("part"),
    )
    size = F.when(F.col("carries"), F.col("part.bytes"))
    byte_counts = (
        entries_by_partition.where(F.col("topic").isNotNull())
        .groupBy("cluster", "topic", "part.partition")
        .agg(
            F.coalesce(F.sum(F.when(F.col("kind") == "request", size)), F.lit(0)).alias("written_bytes"),
            F.coalesce(F.sum(F.when(F.col("kind") == "response", size)), F.lit(0)).alias("read_bytes"),
        )
    )
    table = byte_counts.select(
        "cluster",
        "topic",
        "partition",
        "written_bytes",
        *_share_and_skew("written"),
        "read_bytes",
        *_share_and_skew("read"),
    ).where(F.col("written_share").isNotNull() | F.col("read_share").isNotNull())
    skew = F.greatest("written_skew", "read_skew")
    return table.orderBy(
        F.desc(skew), F.desc(F.col("written_bytes") + F.col("read_bytes")), "topic", "partition", "cluster"
    )


def _share_and_skew(direction: str) -> list[Column]:
    """Return the partition's share of the topic's bytes, and its multiple of the mean."""
    topic = Window.partitionBy("cluster", "topic")
    share = F.try_divide(F.col(f"{direction}_bytes"), F.sum(f"{direction}_bytes").over(topic))
    return [share.alias(f"{direction}_share"), (share * F.count("*").over(topic)).alias(f"{direction}_skew")]
