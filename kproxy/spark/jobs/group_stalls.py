"""Groups that stand still: since when, for how long, who waits for whom, and where to look."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kproxy.groups import StallKind
from kproxy.spark.derived.connection_ids import source
from kproxy.spark.jobs import job

#: What the stall of those who wait for a member says of it too.
_SAID = (StallKind.NOT_REJOINING.value, StallKind.LOST.value, StallKind.SILENT.value)


@job("stalled groups: since when, how long, who waits for whom, and why")
def group_stalls(lines: DataFrame) -> DataFrame:
    """The stalls that proxies have recorded, each once, as it was when it ended or was last seen.

    Each proxy, and the dissector of a capture, detects stalls among the members that it sees. Traces written before
    stalls were recorded have none.

    Args:
        lines: Rows of TABLE; uses the stall lines.

    Returns:
        A row for each stall: `group_id`, `stall` (join-waits, join-unanswered, sync-missing, sync-waits, not-rejoining,
        heartbeats-stopped, member-lost, join-loop, refused, fenced, commit-refused, epoch-lags, unanswered,
        coordinator), `severity`, `since`, `until` (null: its end was not seen), `duration_us` (to the end, or to when
        it was last seen), `waiting` and `blamed` (names of members), `error`, `times` (requests, answers or members),
        `sentence`, `look` (where to look next) and `connection_id`, of the first request. Longest first.
    """
    stalls = lines.where(F.col("kind") == "stall").withColumn("source", source())
    same = Window.partitionBy("source", "group_id", "stall", "since", "connection_id", "request_offset")
    last = F.row_number().over(same.orderBy(F.col("until").isNull(), F.desc("duration_us"), F.desc("ts")))
    told = _without_what_is_said(stalls.withColumn("place", last).where("place = 1"))
    return told.select(
        "cluster", "group_id", "stall", "severity", "since", "until", "duration_us", _names("waiting"),
        _names("blamed"), F.col("error_name").alias("error"), F.coalesce("times", F.lit(1)).alias("times"),
        F.col("message").alias("sentence"), F.col("hint").alias("look"), "connection_id",
    ).orderBy(F.desc("duration_us"), "cluster", "group_id", "since", "stall", "sentence")  # fmt: skip


def _names(column: str) -> Column:
    """A list, which lines leave out where it is empty."""
    return F.coalesce(column, F.array().cast("array<string>")).alias(column)


def _without_what_is_said(stalls: DataFrame) -> DataFrame:
    """Without what is said of a member where others wait for it."""
    since, until = F.unix_micros("since"), F.coalesce(F.unix_micros("until"), F.lit(2**62))
    blamed = _names("blamed_ids")
    waits = F.when(
        F.col("stall") == StallKind.JOIN_WAITS.value,
        F.struct(blamed.alias("blamed_ids"), since.alias("since"), until.alias("until")),
    )
    of_group = F.collect_list(waits).over(Window.partitionBy("source", "cluster", "group_id"))
    said = F.exists(
        "waits",
        lambda wait: (
            (F.size(F.array_except(blamed, wait["blamed_ids"])) == 0)
            & (wait["since"] <= until)
            & (since <= wait["until"])
        ),
    )
    return stalls.withColumn("waits", of_group).where(~(F.col("stall").isin(*_SAID) & said))
