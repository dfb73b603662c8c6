"""Repeated requests, and their causes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import array_or_empty, client_name
from kproxy.spark.derived.retries import refused_again, resent_requests
from kproxy.spark.jobs import job
from kproxy.spark.sentences import host

#: Rules that detect duplicate batches: by producer id and sequence, or by contents.
_SAME_BATCH = ("S033", "S034")
#: The type of both findings and repeats, which differ in what may be null.
_ENTRIES = "array<struct<code:string,name:string,times:bigint>>"


@job("resent requests: after a lost response, after a permanent error, and duplicate batches")
def retries(lines: DataFrame) -> DataFrame:
    """Report retries that may have an effect twice, or that cannot succeed.

    A client is a client id on a host. Its request is a repetition if API, size and topics (with their partitions and
    bytes) are the same. Contents are not compared, so all Heartbeats of a client are the same; rules S033 and S034
    compare the contents of batches.

    Args:
        lines: Rows of TABLE; uses connection_id, kind, ts, client, server, client_id, api, correlation_id, size, acks,
            topics, request_ts, request_size, errors and findings of frames, and by, unanswered and repeated of close
            lines.

    Returns:
        One row per client, host, broker, API, kind and cause. Most retries first.

        - client (string): the client id, or the host if there is none
        - host (string): the host of the client
        - broker (string): the address of the broker
        - api (string): the API
        - kind (string): ``lost``: sent again on another connection within 10 s of the end of one that left it
          unanswered; the broker may have executed both. ``refused``: failed again within 10 s of an error that is not
          retriable in Kafka. ``batch``: a batch that the broker had received before
        - why (string): for ``lost``, who closed the connection (client, server); for ``refused``, the error; for
          ``batch``, the rule that detected it
        - retries (bigint, requests): repeated requests; for ``batch``, batches
        - shortest_us (bigint, µs): the shortest pause before one; null for batches
        - first_at (timestamp, UTC): when the first was sent; for counted batches, the end of their connection
        - last_at (timestamp, UTC): when the last was sent, likewise
        - connection_id (string): of the last one
    """
    lost_rows = resent_requests(lines).select(*_retry_columns("lost", "closed_by", "ended_us"))
    refused_rows = refused_again(lines, retriable=False).select(*_retry_columns("refused", "error", "refused_us"))
    return (
        lost_rows.unionByName(refused_rows)
        .unionByName(_repeated_batches(lines))
        .groupBy("cluster", "client", "host", "broker", "api", "kind", "why")
        .agg(
            F.sum("times").alias("retries"),
            F.min("pause_us").alias("shortest_us"),
            F.min("at").alias("first_at"),
            F.max("at").alias("last_at"),
            F.max(F.struct("at", "connection_id"))["connection_id"].alias("connection_id"),
        )
        .orderBy(F.desc("retries"), "client", "host", "broker", "api", "kind", "why", "cluster")
    )


def _retry_columns(kind: str, reason_column: str, earlier_column: str) -> list[Column | str]:
    """Return the columns of a retry, for rows with retried_us; a negative pause becomes 0."""
    return [
        "cluster", client_name().alias("client"), "host", F.col("server").alias("broker"), "api",
        F.lit(kind).alias("kind"), F.col(reason_column).alias("why"), F.lit(1).cast("long").alias("times"),
        F.greatest(F.col("retried_us") - F.col(earlier_column), F.lit(0)).alias("pause_us"),
        F.timestamp_micros("retried_us").alias("at"), "connection_id",
    ]  # fmt: skip


def _repeated_batches(lines: DataFrame) -> DataFrame:
    """Return the findings of duplicate batches and their repeats, with the columns of `_retry_columns`."""
    findings = F.transform("findings", lambda finding: _finding_struct(finding, F.lit(1).cast("long")))
    repeats = F.transform("repeated", lambda repeat: _finding_struct(repeat, repeat["count"]))
    entries = F.concat(array_or_empty(findings.cast(_ENTRIES)), array_or_empty(repeats.cast(_ENTRIES)))
    batch_findings = F.filter(entries, lambda entry: entry["code"].isin(*_SAME_BATCH))
    # Close lines have no client id, so it is taken from the connection's frames.
    rows = lines.where(F.col("findings").isNotNull() | F.col("repeated").isNotNull()).select(
        "cluster", "connection_id", "client", "server", "client_id", "ts", F.explode(batch_findings).alias("found")
    )
    by_connection = rows.groupBy("cluster", "connection_id").agg(
        F.max("client").alias("client"), F.max("server").alias("server"), F.max("client_id").alias("client_id"),
        F.collect_list(F.struct("ts", "found")).alias("each"),
    )  # fmt: skip
    return by_connection.withColumn("each", F.explode("each")).select(
        "cluster", client_name().alias("client"), host(F.col("client")).alias("host"), F.col("server").alias("broker"),
        F.lit("Produce").alias("api"), F.lit("batch").alias("kind"), F.col("each.found.name").alias("why"),
        F.col("each.found.times").alias("times"), F.lit(None).cast("long").alias("pause_us"),
        F.col("each.ts").alias("at"), "connection_id",
    )  # fmt: skip


def _finding_struct(entry: Column, times: Column) -> Column:
    return F.struct(entry["code"].alias("code"), entry["name"].alias("name"), times.alias("times"))
