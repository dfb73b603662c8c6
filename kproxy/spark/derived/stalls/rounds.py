"""Rounds of joining, of the classic protocol: who asks for a generation, and gets it with all others at once."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kproxy.browse.overviews.groups import EventKind
from kproxy.browse.overviews.groups.stalls.waits import JOIN_PATIENCE
from kproxy.spark.derived.groups import group_events, in_lives, is_kind, qualified

APIS: Final = ("JoinGroup", "SyncGroup", "LeaveGroup")


def steps(lines: DataFrame) -> DataFrame:
    """What members do to get into a generation: events of `group_events` with `life`, heard_us and `next_us`.

    heard_us is when it was answered, or when nobody listened any more; next_us when the member did something else.
    """
    member = Window.partitionBy("group_id", "who").orderBy("asked_us", "correlation_id")
    events = group_events(lines).where(F.col("api").isin(*APIS)).withColumn("heard_us", F.col("ends_us"))
    events = events.withColumn("next_us", F.lead("asked_us").over(member))
    return in_lives(events, is_kind(EventKind.JOIN) & F.col("ok"))


def begun(lines: DataFrame) -> DataFrame:
    """When members of each group were given a generation of the classic protocol: group_id, and begun, an array."""
    given = (F.col("kind") == "response") & (F.col("api") == "JoinGroup") & F.col("errors").isNull()
    at = F.collect_set(F.unix_micros("ts"))
    return (
        qualified(lines)
        .where(given & (F.col("generation_id") > 0))
        .groupBy("group_id")
        .agg(F.array_sort(at).alias("begun"))
    )


def rounds(events: DataFrame) -> DataFrame:
    """The rounds of `steps`: those that brought a generation, and JoinGroup requests together that nobody answered.

    Returns:
        group_id, life, generation (null: none came), first_us and last_us (when the first and last member asked),
        begun_us (the answer, or the end of the last one that waited), until_us (the same, null if one still waits),
        watched_us, connection_id of the first, members (who, label, asked_us, connection_id, closed_us, closed_by; in
        order), before, the members of the generation before, left, those who ever left the group (the same), and
        others, the begun_us of all generations of the group.
    """
    ok, leaves = F.col("ok"), is_kind(EventKind.LEAVE)
    joins = is_kind(EventKind.JOIN) & F.col("error").isNull()
    waits = joins & ~ok & (F.col("ends_us") - F.col("asked_us") > JOIN_PATIENCE // 1000)
    own = Window.partitionBy("group_id", "life").orderBy("asked_us", "correlation_id")
    reaches = F.max(F.when(waits, F.col("ends_us"))).over(own.rowsBetween(Window.unboundedPreceding, -1))
    apart = waits & (F.col("asked_us") > reaches)
    placed = events.withColumn("apart", F.coalesce(apart, F.lit(False)))
    # Generations have their own number, what waits together one from -1 down, and those who leave null.
    number = F.when(joins & ok, F.col("generation")).when(waits, -1 - F.count_if("apart").over(own))
    placed = placed.withColumn("round", number).where(F.col("round").isNotNull() | (leaves & ok))
    member = F.struct("asked_us", "who", "label", "connection_id", "closed_us", "closed_by")
    found = placed.groupBy("group_id", F.when(F.col("round").isNotNull(), F.col("life")).alias("life"), "round").agg(
        F.array_sort(F.collect_list(member)).alias("members"),
        F.max("asked_us").alias("last_us"),
        F.min("ends_us").alias("first_end"),
        F.max("ends_us").alias("last_end"),
        F.count_if(~ok & F.col("closed_us").isNull()).alias("open"),
        F.max("watched_us").alias("watched_us"),
    )
    group = Window.partitionBy("group_id")
    given = F.col("round") >= 0
    first = F.col("members")[0]
    found = found.withColumn("begun_us", F.when(given, F.col("first_end")).otherwise(F.col("last_end")))
    order = group.orderBy(first["asked_us"], "begun_us").rowsBetween(Window.unboundedPreceding, -1)
    return found.select(
        "group_id", "life", "members", "last_us", "begun_us", "watched_us", "round",
        F.when(given, F.col("round")).alias("generation"),
        F.when(F.col("open") == 0, F.col("begun_us")).alias("until_us"),
        first["asked_us"].alias("first_us"), first["connection_id"].alias("connection_id"),
        F.last(F.when(given, F.col("members")), ignorenulls=True).over(order).alias("before"),
        F.first(F.when(F.col("round").isNull(), F.col("members")), ignorenulls=True).over(group).alias("left"),
        F.collect_list(F.when(given, F.col("begun_us"))).over(group).alias("others"),
    ).where(F.col("round").isNotNull())  # fmt: skip
