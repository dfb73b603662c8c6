"""Stalled groups: since when and for how long, which members block which others, and where to look."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.groups import StallKind
from kproxy.spark.columns import list_over
from kproxy.spark.derived.connection_ids import source
from kproxy.spark.jobs import job

#: Stalls of a member that are already covered by a stall of the members who wait for it.
_COVERED = (StallKind.NOT_REJOINING.value, StallKind.LOST.value, StallKind.SILENT.value)


@job("stalled groups: since when, how long, who waits for whom, and why")
def group_stalls(lines: DataFrame) -> DataFrame:
    """Report the recorded stalls, each once, as it was when it ended or was last seen.

    Each proxy, and `dissect` on a capture, detects stalls among the members that it sees. Traces from before stalls
    were recorded have none.

    Args:
        lines: Rows of TABLE; uses the stall lines.

    Returns:
        One row per stall. Longest first.

        - group_id (string): the group
        - stall (string): join-waits, join-unanswered, sync-missing, sync-waits, not-rejoining, heartbeats-stopped,
          member-lost, join-loop, refused, fenced, commit-refused, epoch-lags, unanswered, coordinator, disturbed
        - severity (string): of the stall
        - since (timestamp, UTC): its start
        - until (timestamp, UTC): its end; null if that was not seen
        - duration_us (bigint, µs): to its end, or to when it was last seen
        - waiting (array<string>): names of members that wait
        - blamed (array<string>): names of members that they wait for
        - error (string): the error's name
        - times (bigint, requests, responses or members): how often it was seen
        - sentence (string): a description
        - look (string): where to look next
        - connection_id (string): of the first request
    """
    stalls = lines.where(F.col("kind") == "stall").withColumn("source", source())
    by_stall = Window.partitionBy("source", "group_id", "stall", "since", "connection_id", "request_offset")
    rank = F.row_number().over(by_stall.orderBy(F.col("until").isNull(), F.desc("duration_us"), F.desc("ts")))
    deduplicated = _without_covered(stalls.withColumn("place", rank).where("place = 1"))
    return deduplicated.select(
        "cluster", "group_id", "stall", "severity", "since", "until", "duration_us", _names_or_empty("waiting"),
        _names_or_empty("blamed"), F.col("error_name").alias("error"), F.coalesce("times", F.lit(1)).alias("times"),
        F.col("message").alias("sentence"), F.col("hint").alias("look"), "connection_id",
    ).orderBy(F.desc("duration_us"), "cluster", "group_id", "since", "stall", "sentence")  # fmt: skip


def _names_or_empty(column: str) -> Column:
    """Return a list of names, which lines omit if it is empty."""
    return F.coalesce(column, F.array().cast("array<string>")).alias(column)


def _without_covered(stalls: DataFrame) -> DataFrame:
    """Drop a member's stall if a stall of the members who wait for it covers it."""
    since, until = F.unix_micros("since"), F.coalesce(F.unix_micros("until"), F.lit(2**62))
    blamed = _names_or_empty("blamed_ids")
    waits = F.when(
        F.col("stall") == StallKind.JOIN_WAITS.value,
        F.struct(blamed.alias("blamed_ids"), since.alias("since"), until.alias("until")),
    )
    group_waits = list_over(waits, Window.partitionBy("source", "cluster", "group_id"))
    is_covered = F.exists(
        "waits",
        lambda wait: (
            (F.size(F.array_except(blamed, wait["blamed_ids"])) == 0)
            & (wait["since"] <= until)
            & (since <= wait["until"])
        ),
    )
    return stalls.withColumn("waits", group_waits).where(~(F.col("stall").isin(*_COVERED) & is_covered))
