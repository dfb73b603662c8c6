"""Groups that stand still: since when, for how long, who waits for whom, and where to look."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kproxy.browse.overviews.groups import StallKind
from kproxy.spark.derived.stalls.epochs import coordinator_stalls, epoch_stalls
from kproxy.spark.derived.stalls.joins import join_stalls
from kproxy.spark.derived.stalls.members import member_stalls
from kproxy.spark.derived.stalls.rounds import begun, rounds, steps
from kproxy.spark.derived.stalls.syncs import loop_stalls, sync_stalls
from kproxy.spark.jobs import job

#: What the stall of those who wait for a member says of it too.
_SAID = (StallKind.NOT_REJOINING.value, StallKind.LOST.value, StallKind.SILENT.value)


@job("stalled groups: since when, how long, who waits for whom, and why")
def group_stalls(lines: DataFrame) -> DataFrame:
    """What the terminal UI says of groups (`kproxy.browse.overviews.groups`), over all of a trace.

    The kinds and their limits are its own. What differs, for here the whole trace is known and not only what was
    before: a stall is told once, as it was when it ended; whom a group waits for is who joined last or did not come; a
    request that was never answered until its connection was closed is told too; refusals end with the last one if the
    same is not accepted later. Findings of frames are left to the job findings, a coordinator that moves to nobody.

    Args:
        lines: Rows of TABLE; uses the frames that have a group_id (api, client, client_id, member_id, generation_id,
            request_ts, errors, size), close lines, and the time of the last line of each proxy.

    Returns:
        A row for each stall: `group_id`, `stall` (join-waits, join-unanswered, sync-missing, sync-waits, not-rejoining,
        heartbeats-stopped, member-lost, join-loop, refused, fenced, commit-refused, epoch-lags, unanswered,
        coordinator), `severity`, `since`, `until` (null: it lasts where the trace ends), `duration_us` (to the end of
        either), `waiting` and `blamed` (names of members), `error`, `times` (requests, or members), `sentence`, `look`
        (where to look next) and `connection_id`, of the first request. Longest first.
    """
    events, generations = steps(lines), begun(lines)
    found = [
        join_stalls(lines, rounds(events)),
        sync_stalls(events, generations),
        loop_stalls(lines),
        member_stalls(lines, generations),
        epoch_stalls(lines),
        coordinator_stalls(lines),
    ]
    told = _without_what_is_said(_seen(lines, reduce(DataFrame.unionByName, found)))
    return told.select(
        "group_id.*", "stall", "severity", F.timestamp_micros("since_us").alias("since"),
        F.timestamp_micros("until_us").alias("until"), F.col("lasted_us").alias("duration_us"), "waiting", "blamed",
        "error", "times", "sentence", "look", "connection_id",
    ).orderBy(F.desc("duration_us"), "group_id", "since", "stall", "sentence", "cluster")  # fmt: skip


def _seen(lines: DataFrame, stalls: DataFrame) -> DataFrame:
    """Without those that may not have been: bytes that were not inspected can hold any request, and any answer."""
    gaps = lines.where(F.col("kind") == "gap").groupBy("connection_id").agg(
        F.collect_list(F.unix_micros("ts")).alias("gaps")
    )  # fmt: skip
    since, until = F.col("since_us"), F.col("since_us") + F.col("lasted_us")
    missed = F.exists("gaps", lambda at: (at >= since) & (at <= until))
    with_gaps = stalls.join(gaps, "connection_id", "left")
    return with_gaps.where(~F.coalesce(missed, F.lit(False)) | F.col("error").isNotNull()).drop("gaps")


def _without_what_is_said(stalls: DataFrame) -> DataFrame:
    """Without what is said of a member where others wait for it."""
    forever = F.lit(2**62)
    since, until = F.col("since_us"), F.coalesce("until_us", forever)
    waits = F.when(
        F.col("stall") == StallKind.JOIN_WAITS.value, F.struct("blamed_ids", "since_us", until.alias("until"))
    )
    of_group = F.collect_list(waits).over(Window.partitionBy("group_id"))
    said = F.exists(
        "waits",
        lambda wait: (
            (F.size(F.array_except(F.col("blamed_ids"), wait["blamed_ids"])) == 0)
            & (wait["since_us"] <= until)
            & (since <= wait["until"])
        ),
    )
    return stalls.withColumn("waits", of_group).where(~(F.col("stall").isin(*_SAID) & said))
