"""Runs of repeated Metadata requests."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.rules.behaviour.metadata_loop import ANSWERS
from kproxy.spark.sentences import host

#: This many requests with an error, or this many per connection, are a loop; rule S005 uses the same number. Many
#: clients with the same client id, each with the first requests of its own connection, are not a loop.
MANY: Final = ANSWERS
#: Requests belong to the same run if they are less than this apart (us): clients retry after 100 ms to 1 s
#: (retry.backoff.max.ms, topic.metadata.refresh.fast.interval.ms), and refresh after 5 minutes.
GAP_US: Final = 2_000_000

_CLIENT = ["cluster", "host", "client_id"]
#: The fields of a refusal, and the columns for them.
_REFUSAL = {"name": "error", "topic": "topic"}


def metadata_runs(lines: DataFrame) -> DataFrame:
    """Return the answered Metadata requests of each client (a client id on a host) as runs.

    Returns:
        One row per run that is a loop: cluster, host, client_id, client (one of its addresses), connection_id (of the
        last request), broker (the lowest address used), first_at and last_at (of requests), requests, refused
        (responses with an error), error and topic (the most frequent pair), connections, topics (the most in a
        response) and bytes.
    """
    by_client = Window.partitionBy(*_CLIENT).orderBy("request_ts", "connection_id", "offset")
    answers = lines.where(
        (F.col("api") == "Metadata") & (F.col("kind") == "response") & F.col("request_ts").isNotNull()
    ).select(
        "cluster", host(F.col("client")).alias("host"), "client_id", "client", "server", "connection_id", "offset",
        "request_ts", "size", F.coalesce(F.size("topics"), F.lit(0)).alias("topics"), _first_error().alias("refusal"),
    )  # fmt: skip
    gap = F.unix_micros("request_ts") - F.unix_micros(F.lag("request_ts").over(by_client))
    starts_run = F.coalesce(gap >= GAP_US, F.lit(True))
    runs = answers.withColumn("begins", starts_run).withColumn("run", F.count_if("begins").over(by_client))
    totals = runs.groupBy(*_CLIENT, "run").agg(
        F.min("client").alias("client"),
        F.max(F.struct("request_ts", "connection_id"))["connection_id"].alias("connection_id"),
        F.min("server").alias("broker"),
        F.min("request_ts").alias("first_at"),
        F.max("request_ts").alias("last_at"),
        F.count("*").alias("requests"),
        F.count("refusal").alias("refused"),
        F.mode(F.to_json("refusal"), True).alias("refusal"),  # as text: Sail has no mode of structs
        F.count_distinct("connection_id").alias("connections"),
        F.max("topics").alias("topics"),
        F.sum("size").alias("bytes"),
    )
    is_loop = (F.col("refused") >= MANY) | (F.col("requests") >= MANY * F.col("connections"))
    error, topic = (F.get_json_object("refusal", f"$.{name}").alias(column) for name, column in _REFUSAL.items())
    return totals.where(is_loop).select("*", error, topic).drop("run", "refusal")


def _first_error() -> Column:
    """Return the name of a response's first error, and its topic; null without errors."""
    error = F.get("errors", F.lit(0))
    topic_index = F.regexp_extract(error["path"], r"^topics\[([0-9]+)\]", 1)
    topic = F.get("topics", F.try_to_number(topic_index, F.lit("9999999999")).cast("int"))["topic"]
    return F.when(error.isNotNull(), F.struct(error["name"].alias("name"), topic.alias("topic")))
