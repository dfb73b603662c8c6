"""Rebalances of groups, one after the other: who began each, how long it took, and how many came in a row."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.rules.behaviour.rebalance_storm import GENERATIONS, WITHIN
from kproxy.groups import EventKind, Protocol
from kproxy.groups.explanations import REJOIN
from kproxy.spark.derived.groups import coming, group_events, in_lives, is_kind
from kproxy.spark.jobs import job


@job("rebalances of each group in order: who caused them and why, how long they took, and rebalance storms")
def rebalances(lines: DataFrame) -> DataFrame:
    """How groups go from one generation, or epoch, to the next.

    Args:
        lines: Rows of TABLE; uses the frames of members of groups: group_id, member_id, client_id, generation_id,
            errors, request_ts, ts and connection_id.

    Returns:
        A row for each generation that a member was given: `group_id`, `protocol`, `generation`, `since` (the first
        JoinGroup of it, or before that the first REBALANCE_IN_PROGRESS; of an epoch when it was first heard of),
        `until` (the first assignment of it; when the last member has reached the epoch), `duration_us` between them,
        all null if none came, `by` (the member that was first) and `why`: ``leave`` (it left), ``join`` (it was not in
        the generation before), ``told`` (members were told before one had joined: a session ran out, or somebody who is
        not seen here), ``rejoin`` (by itself). `members` got the generation, `a_minute` is how many the group went
        through in the minute before, `storm` that they are as many as the rule S012 asks for, `connection_id` that of
        the first. The group with most in a minute first, its generations in their order.
    """
    events = group_events(lines).where(F.col("own"))
    found = _generations(events).unionByName(_epochs(events))
    until = Window.partitionBy("group_id", "life").orderBy("begun_us").rangeBetween(-(WITHIN // 1000), 0)
    a_minute = F.col("generation") - F.min("generation").over(until)
    rows = found.withColumn("a_minute", a_minute).withColumn("storm", F.col("a_minute") >= GENERATIONS)
    return (
        rows.withColumn("most", F.max("a_minute").over(Window.partitionBy("group_id")))
        .orderBy(F.desc("most"), "group_id", "since_us", "generation")
        .select(
            "group_id.*", "protocol", "generation", F.timestamp_micros("since_us").alias("since"),
            F.timestamp_micros("until_us").alias("until"), (F.col("until_us") - F.col("since_us")).alias("duration_us"),
            "by", "why", "members", "a_minute", "storm", "connection_id",
        )
    )  # fmt: skip


def _generations(events: DataFrame) -> DataFrame:
    """Of the classic protocol: all members join, then all are given their assignment."""
    ok, error = F.col("ok"), F.col("error")
    told = is_kind(EventKind.HEARTBEAT) & (error == REJOIN)
    joins, leaves, syncs = is_kind(EventKind.JOIN) & ok, is_kind(EventKind.LEAVE) & ok, is_kind(EventKind.SYNC) & ok
    classic = events.where((F.col("protocol") == Protocol.CLASSIC.value) & (joins | leaves | syncs | told))
    each = in_lives(classic.withColumn("heard_us", F.col("answered_us")), joins)
    # Who leaves, or is told, is part of what the next ones to join begin.
    order = ("heard_us", "asked_us", "correlation_id")
    next_joined = coming(F.col("generation"), joins, ("group_id", "life"), order)
    each = each.withColumn("round", F.when(syncs, F.col("generation")).otherwise(next_joined))

    def first(kind: Column) -> Column:
        return F.min(F.when(kind, F.struct("asked_us", "label", "connection_id", "who")))

    rounds = each.groupBy("group_id", "life", "protocol", F.col("round").alias("generation")).agg(
        first(joins).alias("joined"),
        first(leaves).alias("left"),
        F.min(F.when(told, F.col("heard_us"))).alias("told_us"),
        F.min(F.when(joins, F.col("heard_us"))).alias("begun_us"),
        F.min(F.when(syncs, F.col("heard_us"))).alias("until_us"),
        F.collect_set(F.when(joins, F.col("who"))).alias("those"),
    )
    before = F.lag("those").over(Window.partitionBy("group_id", "life").orderBy("generation"))
    was_left = F.col("left.asked_us") < F.col("joined.asked_us")
    why = (
        F.when(was_left, "leave")
        .when(~F.coalesce(F.array_contains("before", F.col("joined.who")), F.lit(False)), "join")
        .when(F.col("told_us") < F.col("joined.asked_us"), "told")
        .otherwise("rejoin")
    )
    # The first sync can be all that is seen of a generation: how it came about is not known.
    known = rounds.withColumn("before", before).where(F.col("joined").isNotNull())
    cause = F.when(was_left, F.col("left")).otherwise(F.col("joined"))
    return known.select(
        "group_id", "life", "protocol", "generation", "begun_us", "until_us",
        F.least("joined.asked_us", "told_us").alias("since_us"), cause["label"].alias("by"), why.alias("why"),
        F.size("those").alias("members"), cause["connection_id"].alias("connection_id"),
    )  # fmt: skip


def _epochs(events: DataFrame) -> DataFrame:
    """Of the protocols with epochs (KIP-848, KIP-932, KIP-1071): each member goes to the new one when it can."""
    reached = is_kind(EventKind.JOIN, EventKind.HEARTBEAT) & F.col("ok") & (F.col("generation") > 0)
    by_epoch = (F.col("protocol") != Protocol.CLASSIC.value) & reached
    firsts = (
        events.where(by_epoch)
        .groupBy("group_id", "protocol", "generation", "who")
        .agg(
            F.min(F.struct("answered_us", "asked_us", "correlation_id", "label", "connection_id", "kind")).alias(
                "event"
            )
        )
    )
    each = in_lives(
        firsts.select(
            "group_id", "protocol", "generation", "who", F.col("event.answered_us").alias("heard_us"), "event.*"
        ),
        is_kind(EventKind.JOIN),
    )
    first = F.min(F.struct("heard_us", "label", "connection_id", "kind"))
    epochs = each.groupBy("group_id", "life", "protocol", "generation").agg(
        first.alias("first"), F.max("heard_us").alias("until_us"), F.count("*").cast("int").alias("members")
    )
    why = F.when(F.col("first.kind") == EventKind.JOIN.value, "join").otherwise("told")
    return epochs.select(
        "group_id", "life", "protocol", "generation", F.col("first.heard_us").alias("begun_us"), "until_us",
        F.col("first.heard_us").alias("since_us"), F.col("first.label").alias("by"), why.alias("why"), "members",
        F.col("first.connection_id").alias("connection_id"),
    )  # fmt: skip
