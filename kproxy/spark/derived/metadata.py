"""Runs of Metadata requests, for what is said of clients that ask for it again and again."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.rules.behaviour.metadata_loop import ANSWERS
from kproxy.spark.sentences import host

#: So many with an error, or so many on each connection, make a loop; the rule S005 has the same number. Many clients of
#: one client id, each with its first questions on a connection of its own, do not.
MANY: Final = ANSWERS
#: Requests belong to a run while they are less than this apart (us): clients try again after 100 ms to 1 s
#: (retry.backoff.max.ms, topic.metadata.refresh.fast.interval.ms), and refresh after 5 minutes.
GAP_US: Final = 2_000_000

_CLIENT = ["cluster", "host", "client_id"]


def metadata_runs(lines: DataFrame) -> DataFrame:
    """The answered Metadata requests of each client, a client id on a host, in runs.

    Returns:
        A row for each run that is a loop: cluster, host, client_id, client (an address of it), connection_id (of the
        last), broker (the lowest of those asked), first_at and last_at (when it asked), requests, refused (with an
        error), error and topic (those of most answers with an error), connections, topics (most in an answer) and
        bytes.
    """
    own = Window.partitionBy(*_CLIENT).orderBy("request_ts", "connection_id", "offset")
    answers = lines.where(
        (F.col("api") == "Metadata") & (F.col("kind") == "response") & F.col("request_ts").isNotNull()
    ).select(
        "cluster", host(F.col("client")).alias("host"), "client_id", "client", "server", "connection_id", "offset",
        "request_ts", "size", F.coalesce(F.size("topics"), F.lit(0)).alias("topics"), _first_error().alias("refusal"),
    )  # fmt: skip
    apart = F.unix_micros("request_ts") - F.unix_micros(F.lag("request_ts").over(own))
    begins = F.coalesce(apart >= GAP_US, F.lit(True))
    runs = answers.withColumn("begins", begins).withColumn("run", F.count_if("begins").over(own))
    found = runs.groupBy(*_CLIENT, "run").agg(
        F.min("client").alias("client"),
        F.max(F.struct("request_ts", "connection_id"))["connection_id"].alias("connection_id"),
        F.min("server").alias("broker"),
        F.min("request_ts").alias("first_at"),
        F.max("request_ts").alias("last_at"),
        F.count("*").alias("requests"),
        F.count("refusal").alias("refused"),
        F.mode("refusal", True).alias("refusal"),
        F.count_distinct("connection_id").alias("connections"),
        F.max("topics").alias("topics"),
        F.sum("size").alias("bytes"),
    )
    loops = (F.col("refused") >= MANY) | (F.col("requests") >= MANY * F.col("connections"))
    return found.where(loops).select(
        "*", F.col("refusal.name").alias("error"), F.col("refusal.topic").alias("topic")
    ).drop("run", "refusal")  # fmt: skip


def _first_error() -> Column:
    """The name of the first error of an answer, and the topic that it is about; null if all is well."""
    error = F.get("errors", F.lit(0))
    place = F.regexp_extract(error["path"], r"^topics\[([0-9]+)\]", 1)
    topic = F.get("topics", F.try_to_number(place, F.lit("9999999999")).cast("int"))["topic"]
    return F.when(error.isNotNull(), F.struct(error["name"].alias("name"), topic.alias("topic")))
