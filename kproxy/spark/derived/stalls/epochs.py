"""Epochs that members do not reach (KIP-848, KIP-932, KIP-1071), and coordinators that are none."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kproxy.browse.overviews.groups import EventKind, StallKind, explanations
from kproxy.browse.overviews.groups.stalls.waits import DENIED_PATIENCE, EPOCH_PATIENCE
from kproxy.spark.derived.groups import group_events, in_lives, is_kind, qualified
from kproxy.spark.derived.stalls import ago, ids, labels, stall_rows
from kproxy.spark.sentences import chosen, names, text, times

_APIS: Final = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
_PATIENCE_US: Final = EPOCH_PATIENCE // 1000
#: Refusals further apart (us) are about something else.
_TOGETHER_US: Final = 10_000_000

_LOOK = (
    "check the poll loop of the member that is behind: it gives up partitions in poll(); after max.poll.interval.ms it "
    "is fenced"
)


def epoch_stalls(lines: DataFrame) -> DataFrame:
    """Members that stay at an epoch while the group is at the next: they do not give up what others are to get."""
    events = group_events(lines).where(
        F.col("api").isin(*_APIS) & is_kind(EventKind.JOIN, EventKind.HEARTBEAT) & F.col("ok")
    )
    events = events.where(F.col("generation") > 0).withColumn("heard_us", F.col("answered_us"))
    events = in_lives(events, is_kind(EventKind.JOIN))
    firsts = events.groupBy("group_id", "life", "who", "generation").agg(
        F.min("heard_us").alias("heard_us"), F.max("heard_us").alias("last_us"), F.max("label").alias("label"),
        F.min(F.struct("heard_us", "connection_id"))["connection_id"].alias("connection_id"),
        F.max("watched_us").alias("watched_us"),
    )  # fmt: skip
    epochs = firsts.groupBy("group_id", "life", F.col("generation").alias("epoch")).agg(
        F.min("heard_us").alias("since_us"),
        F.min(F.struct("heard_us", "connection_id"))["connection_id"].alias("connection_id"),
    )
    later = Window.partitionBy("group_id", "life").orderBy("epoch")
    epochs = epochs.withColumn("next_us", F.lead("since_us").over(later))
    # Of each member: when it was at this epoch or above, from when on it is here, and how long it stays below.
    below = F.col("generation") < F.col("epoch")
    members = (
        epochs.join(firsts.drop("connection_id"), ["group_id", "life"])
        .groupBy("group_id", "life", "epoch", "since_us", "next_us", "connection_id", "who")
        .agg(
            F.min(F.when(~below, F.col("heard_us"))).alias("reached_us"),
            F.min("heard_us").alias("came_us"),
            F.max(F.when(below, F.col("last_us"))).alias("below_us"),
            F.max(F.when(below, F.col("generation"))).alias("at"),
            F.max("label").alias("label"),
            F.max("watched_us").alias("watched_us"),
        )
    )
    until = F.least("reached_us", "next_us")
    behind = (F.col("came_us") < F.col("since_us")) & (
        F.coalesce(until, "below_us") - F.col("since_us") >= _PATIENCE_US
    )
    member = F.struct("who", "label")
    late = F.coalesce(behind & (F.col("at") < F.col("epoch")), F.lit(False))
    found = members.withColumn("late", late).groupBy("group_id", "life", "epoch", "since_us", "connection_id").agg(
        F.array_sort(F.collect_set(F.when(F.col("late"), member))).alias("behind"),
        F.array_sort(F.collect_set(F.when(~F.col("late") & (F.col("reached_us") <= F.col("since_us") + _PATIENCE_US),
                                          member))).alias("ahead"),
        F.array_sort(F.collect_set(F.when(F.col("late"), F.col("at").cast("string")))).alias("epochs"),
        F.max(F.when(F.col("late"), until)).alias("until_us"),
        F.count_if(F.col("late") & until.isNull()).alias("open"),
        F.max("watched_us").alias("watched_us"),
    ).where(F.size("behind") > 0)  # fmt: skip
    found = found.withColumn("until_us", F.when(F.col("open") == 0, F.col("until_us")))
    found = found.withColumn("lasted_us", F.coalesce("until_us", "watched_us") - F.col("since_us"))
    behind_ones = labels(F.col("behind"))
    are = F.when(F.size("behind") > 1, " are").otherwise(" is")
    epoch, lasted = F.col("epoch").cast("string"), ago(F.col("lasted_us"))
    return stall_rows(
        found, StallKind.LAGGING, waiting=labels(F.col("ahead")), blamed=behind_ones, blamed_ids=ids(F.col("behind")),
        look=F.lit(_LOOK), times=F.size("behind").cast("long"),
        sentence=text(names(behind_ones), are, " at epoch ", F.array_join("epochs", ", "), ", and the group at ",
                      epoch, " for ", lasted, ": partitions that others wait for have not been revoked"),
    )  # fmt: skip


def coordinator_stalls(lines: DataFrame) -> DataFrame:
    """Groups whose coordinator is none, is not there, or is not ready: members are told so again and again."""
    error = F.get("errors", F.lit(0))["name"]
    own = Window.partitionBy("group_id", "error").orderBy("at")
    denied = qualified(lines).where(
        (F.col("kind") == "response") & F.col("group_id").isNotNull() & F.col("api").isin(*explanations.KINDS)
        & error.isin(*explanations.DENIED)
    ).select("group_id", error.alias("error"), F.unix_micros("ts").alias("at"), "connection_id")  # fmt: skip
    apart = F.coalesce(F.col("at") - F.lag("at").over(own) > _TOGETHER_US, F.lit(False))
    placed = denied.withColumn("apart", apart).withColumn("place", F.count_if("apart").over(own))
    found = placed.groupBy("group_id", "error", "place").agg(
        F.count("*").alias("times"), F.min("at").alias("since_us"), F.max("at").alias("until_us"),
        F.min(F.struct("at", "connection_id"))["connection_id"].alias("connection_id"),
    ).withColumn("lasted_us", F.col("until_us") - F.col("since_us"))  # fmt: skip
    told = {error: explanations.meaning(error) for error in explanations.DENIED}
    least = max(meaning.times for meaning in told.values())
    found = found.where((F.col("times") >= least) & (F.col("lasted_us") >= DENIED_PATIENCE // 1000))
    why = chosen(F.col("error"), {error: meaning.why for error, meaning in told.items()})
    return stall_rows(
        found, StallKind.COORDINATOR, look=chosen(F.col("error"), {error: each.look for error, each in told.items()}),
        sentence=text("members of the group got ", F.col("error"), " ", times(F.col("times")), " within ",
                      ago(F.col("lasted_us")), ": ", why),
    )  # fmt: skip
