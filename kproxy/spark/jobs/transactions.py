"""Transactions: who had a transaction open, from when to when, and how it ended."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.messages.transaction_facts import APIS
from kproxy.spark.columns import array_or_empty, client_name, set_over, topic_name
from kproxy.spark.jobs import job
from kproxy.spark.sentences import host

#: What a line means for the transaction of its transactional id.
_BEGIN, _END, _INIT, _MARKER = "begin", "end", "init", "marker"
_ID = ("cluster", "transactional_id")
_ORDER = ("us", "connection_id", "offset")


@job("transactions: who had one open from when to when, on how many partitions, and how it ended")
def transactions(lines: DataFrame) -> DataFrame:
    """Report each transaction from its beginning to its end.

    A transaction begins when the coordinator adds a partition or group to it, or with its first batch (version 2 of the
    protocol, KIP-890). It ends when EndTxn or InitProducerId succeeds, or with a marker from the coordinator, which has
    aborted it after its timeout. Traces from before `producer_id` was recorded have none.

    Args:
        lines: Rows of TABLE; uses frames with a transactional_id, and markers.

    Returns:
        One row per transaction. Those that are open at the end of the recording first, then the longest first.

        - transactional_id (string): the transactional id
        - producer_id (bigint): the producer id
        - producer_epoch (bigint): the epoch of the producer
        - client (string): the client id, or the host if there is none
        - host (string): the host of the client
        - version (int): of the transaction protocol (KIP-890): 1, or 2; null if it has not ended
        - begun_at (timestamp, UTC): when it began
        - ended_at (timestamp, UTC): when it ended; null if it was open at the end
        - open_us (bigint, µs): the time between both, or until the last line of the cluster
        - outcome (string): ``committed``, ``aborted``, ``fenced`` (the coordinator has aborted it, after its timeout
          or for a producer on another connection) or ``open``
        - partitions (bigint, partitions): those that it has written to, as far as they were observed
        - records (bigint, records): those in its Produce requests
        - groups (bigint, groups): those whose offsets it commits
        - refused (bigint, responses): responses with an error
        - timeout_us (bigint, µs): transaction.timeout.ms, from the last InitProducerId; null if none was observed
        - connection_id (string): the connection on which it began
    """
    last_lines = lines.groupBy("cluster").agg(F.max(F.unix_micros("ts")).alias("last_us"))
    begun_us, ended_us = F.col("begun.us"), F.col("ended.us")
    outcome = F.coalesce("ended.outcome", F.lit("open"))
    return (
        _transactions(_events(lines)) .join(F.broadcast(last_lines), "cluster") .select("cluster", "transactional_id",
                      "begun.producer_id", "begun.producer_epoch", "begun.client", "begun.host", "ended.version",
                      F.timestamp_micros(begun_us).alias("begun_at"), F.timestamp_micros(ended_us).alias("ended_at"),
                      (F.coalesce(ended_us, "last_us") - begun_us).alias("open_us"), outcome.alias("outcome"),
                      "partitions", "records", "groups", "refused", "timeout_us", "begun.connection_id",
                      ) .orderBy(F.col("ended_at").isNotNull(), F.desc("open_us"), "transactional_id", "begun_at",
                      "cluster")
    )  # fmt: skip


def _events(lines: DataFrame) -> DataFrame:
    """Return frames and markers of transactions as events with the same columns, except those of fenced producers."""
    has_error = F.size(array_or_empty(F.col("errors"))) > 0
    api, is_request = F.col("api"), F.col("kind") == "request"
    is_success = ~is_request & ~has_error
    kind = (
        F.when(is_request & (api == "Produce"), _BEGIN)
        .when(is_success & (api == "InitProducerId"), _INIT)
        .when(is_success & (api == "EndTxn"), _END)
        .when(is_success & api.isin("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"), _BEGIN)
    )
    topic_partitions = F.flatten(
        F.transform(
            array_or_empty(F.col("topics")),
            lambda topic: F.transform(topic["partitions"], lambda number: F.struct(topic_name(topic), number)),
        )
    )
    is_write = (kind == _BEGIN) & api.isin("Produce", "AddPartitionsToTxn")
    record_count = F.aggregate(array_or_empty(F.transform("topics",
                                                          lambda topic: F.coalesce(topic["records"],
                                                                                   F.lit(0)))), F.lit(0).cast("long"),
                               lambda total, number: total + number)  # fmt: skip
    frames = lines.where(F.col("transactional_id").isNotNull() & api.isin(*APIS, "Produce")).select(
        *_ID, F.unix_micros("ts").alias("us"), "connection_id", "offset", kind.alias("event"),
        "producer_id", "producer_epoch", client_name().alias("client"), host(F.col("client")).alias("host"),
        F.when(api == "EndTxn", F.when(F.col("api_version") >= 5, 2).otherwise(1)).alias("version"),
        F.when(F.col("committed"), "committed").otherwise("aborted").alias("outcome"),
        F.when(kind == _INIT, F.col("transaction_timeout_ms") * 1000).alias("timeout_us"),
        F.when(is_write, topic_partitions).alias("places"),
        F.when(is_request & (api == "Produce"), record_count).otherwise(F.lit(0)).alias("records"),
        F.when(kind == _BEGIN, F.col("group_id")).alias("group_id"),
        (~is_request & has_error).alias("is_refused"),
    )  # fmt: skip
    events = frames.unionByName(_markers(lines, frames), allowMissingColumns=True)
    earlier_window = Window.partitionBy(*_ID, "producer_id").orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    highest_epoch = F.max("producer_epoch").over(earlier_window)
    is_late = F.coalesce(F.col("producer_epoch") < highest_epoch, F.lit(False))
    is_old_marker = F.col("event").eqNullSafe(_MARKER) & ~F.coalesce(
        F.col("producer_epoch") > highest_epoch, F.lit(False)
    )
    return events.withColumn("ignored", is_late | is_old_marker).where(~F.col("ignored"))


def _markers(lines: DataFrame, frames: DataFrame) -> DataFrame:
    """Return the markers of known producers as events: a higher epoch means that the coordinator aborts."""
    producer_ids = frames.where(F.col("producer_id").isNotNull()).select(*_ID, "producer_id").distinct()
    markers = lines.where(F.size(array_or_empty(F.col("markers"))) > 0).select(
        "cluster", F.unix_micros("ts").alias("us"), "connection_id", "offset", F.explode("markers").alias("marker")
    )
    return markers.select(
        "cluster", "us", "connection_id", "offset", F.lit(_MARKER).alias("event"), "marker.producer_id",
        "marker.producer_epoch", F.when(F.col("marker.committed"), "committed").otherwise("fenced").alias("outcome"),
        F.lit(0).cast("long").alias("records"), F.lit(False).alias("is_refused"),
    ).join(producer_ids, ["cluster", "producer_id"])  # fmt: skip


def _transactions(events: DataFrame) -> DataFrame:
    """Return one row for each span of events up to an end, if the span has an event that begins a transaction."""
    event = F.col("event")
    is_end = F.coalesce(event.isin(_END, _INIT, _MARKER), F.lit(False))
    earlier = Window.partitionBy(*_ID).orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    since_init = Window.partitionBy(*_ID, "era").orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    init_connection = F.when(event == _INIT, F.col("connection_id"))
    used_connections = F.concat(set_over(F.when(event != _MARKER, F.col("connection_id")), since_init),
                                F.array(F.coalesce("opened_by", F.lit(""))))  # fmt: skip
    events_in_spans = (
        events.withColumn("span", F.coalesce(F.count_if(is_end).over(earlier), F.lit(0)))
        .withColumn("era", F.coalesce(F.count_if(F.coalesce(event == _INIT, F.lit(False))).over(earlier), F.lit(0)))
        .withColumn("opened_by", F.last(init_connection, ignorenulls=True).over(earlier))
        .withColumn("timeout_us", F.last("timeout_us", ignorenulls=True).over(earlier))
        .withColumn("same", F.array_contains(used_connections, F.col("connection_id")))
    )
    outcome = F.when(event == _INIT, F.when(F.col("same"), "aborted").otherwise("fenced")).otherwise(F.col("outcome"))
    begin_struct = F.struct("us", "offset", "producer_id", "producer_epoch", "client", "host", "connection_id")
    end_struct = F.struct("us", "offset", outcome.alias("outcome"), "version")
    return (
        events_in_spans.groupBy(*_ID, "span")
        .agg(
            F.min(F.when(event == _BEGIN, begin_struct)).alias("begun"),
            F.max(F.when(is_end, end_struct)).alias("ended"),
            _distinct_count(F.flatten(F.collect_list("places"))).alias("partitions"),
            F.sum("records").alias("records"),
            F.count_distinct("group_id").alias("groups"),
            F.count_if("is_refused").alias("refused"),
            F.min("timeout_us").alias("timeout_us"),
        )
        .where(F.col("begun").isNotNull())
    )


def _distinct_count(topic_partitions: Column) -> Column:
    return F.size(F.array_distinct(topic_partitions)).cast("long")
