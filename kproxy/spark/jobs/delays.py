"""Delays: how old records are when they are read, and the time from Produce to Fetch."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import array_or_empty, client_name, is_decoded, topic_name
from kproxy.spark.derived.memberships import memberships
from kproxy.spark.jobs import job
from kproxy.spark.sentences import host

#: What identifies the first batch of a partition in a response.
_BATCH: Final = ("cluster", "server", "topic", "partition", "base_offset")
#: What identifies a response.
_RESPONSE: Final = ("connection_id", "offset", "at_us")
#: A consumer may get a batch up to this long (µs) before its producer gets the response.
_EARLY_US: Final = 60_000_000


@job("how old records are when they are read, and the time from Produce to Fetch, by partition and reader")
def delays(lines: DataFrame) -> DataFrame:
    """Report lag as time: the age of records when a client reads them, and how long their delivery took.

    Both are measured for the first batch of a partition in a Fetch or ShareFetch response, which has waited longest.
    Only batches of record format 2 count.

    The age is based on the record's timestamp, so it depends on clocks: on the producer's (CreateTime, which
    applications may also set to any time), or with `message.timestamp.type=LogAppendTime` on the broker's. It is
    negative if that clock is ahead. The delivery is measured by one clock, but is known only if the Produce request and
    the Fetch response passed through the same proxy, to and from the same broker, with acks other than 0. The trace
    must begin before the records were produced.

    Args:
        lines: Rows of TABLE; uses ts, kind, api, client_id, client, server, connection_id, offset, group_id,
            request_ts, topics and not_decoded of responses to Produce, Fetch and ShareFetch, and of requests of group
            members.

    Returns:
        One row per topic, partition and reader. The longest median age first, then the longest median delivery.

        - topic (string): the topic, or its id if the name is unknown
        - partition (bigint): the number of the partition
        - client (string): the client id of the reader, or its host if there is none
        - group_id (string): the group of the members with this client id on this host; null if there are none, or
          several
        - responses (bigint, responses): fetch responses with a batch of the partition
        - p50_age_ms (double, ms): median age of the first record in them; null if no record had a timestamp
        - p99_age_ms (double, ms): 99th percentile
        - max_age_ms (bigint, ms): maximum
        - append_time_share (double, 0 to 1): share of the ages that are based on the broker's clock
        - deliveries (bigint, batches): those of which the Produce request is known
        - p50_delivery_us (double, µs): median time from Produce request to Fetch response; null if there are none
        - p99_delivery_us (double, µs): 99th percentile
        - max_delivery_us (bigint, µs): maximum
    """
    reads = (
        _first_batches(lines, "Fetch", "ShareFetch")
        .join(memberships(lines), ["cluster", "client", "host"], "left")
        .withColumn("group_id", F.coalesce("own_group", "member_group"))
    )
    # The latest request for the offset counts: a topic may have been recreated.
    writes = _first_batches(lines, "Produce").select(*_BATCH, F.col("asked_us").alias("written_us"), "at_us")
    delivery = F.col("read_us") - F.col("written_us")
    is_earlier = (delivery >= 0) & (F.col("stored_us") - F.col("read_us") < _EARLY_US)
    deliveries = (
        reads.select(*_BATCH, *_RESPONSE, F.col("at_us").alias("read_us"))
        .join(writes.withColumnRenamed("at_us", "stored_us"), list(_BATCH))
        .where(is_earlier)
        .groupBy("topic", "partition", *_RESPONSE)
        .agg(F.min(delivery).alias("delivery_us"))
    )
    return (
        reads.join(deliveries, ["topic", "partition", *_RESPONSE], "left")
        .groupBy("cluster", "topic", "partition", "client", "group_id")
        .agg(
            F.count("*").alias("responses"),
            *_percentiles("age_ms"),
            F.mean(F.when(F.col("age_ms").isNotNull(), F.col("append_time").cast("int"))).alias("append_time_share"),
            F.count("delivery_us").alias("deliveries"),
            *_percentiles("delivery_us"),
        )
        .orderBy(F.desc("p50_age_ms"), F.desc("p50_delivery_us"), "topic", "partition", "client", "group_id", "cluster")
    )


def _first_batches(lines: DataFrame, *apis: str) -> DataFrame:
    """Return the first batch of each partition in the responses."""
    batches = F.arrays_zip(
        F.col("entry.partitions").alias("partition"),
        F.col("entry.offsets").alias("base_offset"),
        array_or_empty(F.col("entry.ages_ms")).alias("age_ms"),
    )
    entries = lines.where(is_decoded(*apis)).select(
        "cluster", "server", "connection_id", "offset",
        F.unix_micros("ts").alias("at_us"), F.unix_micros("request_ts").alias("asked_us"),
        client_name().alias("client"), host(F.col("client")).alias("host"), F.col("group_id").alias("own_group"),
        F.explode("topics").alias("entry"),
    )  # fmt: skip
    by_topic = entries.where(F.size(array_or_empty(F.col("entry.offsets"))) > 0).select(
        "*",
        topic_name(F.col("entry")).alias("topic"),
        F.coalesce("entry.append_time", F.lit(False)).alias("append_time"),
        F.explode(batches).alias("batch"),
    )
    return by_topic.select("*", "batch.*").drop("entry", "batch").where(F.col("base_offset").isNotNull())


def _percentiles(name: str) -> list[Column]:
    return [
        F.percentile(name, 0.5).alias(f"p50_{name}"),
        F.percentile(name, 0.99).alias(f"p99_{name}"),
        F.max(name).alias(f"max_{name}"),
    ]
