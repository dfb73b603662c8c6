"""Rebalances of groups, in order: cause, duration, and frequency."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.groups import EventKind, Protocol
from dissectors.groups.causes import CAUSES, DEFAULT_CAUSE, REJOIN_ERRORS
from dissectors.groups.model import CauseKind
from dissectors.rules.behaviour.rebalance_storm import GENERATIONS, WITHIN
from kproxy.spark.derived.groups import group_events, is_kind, next_value, with_lives
from kproxy.spark.jobs import job


@job("rebalances of each group in order: who caused them and why, how long they took, and rebalance storms")
def rebalances(lines: DataFrame) -> DataFrame:
    """Report how groups move from one generation, or epoch, to the next.

    Args:
        lines: Rows of TABLE; uses the frames of members of groups: group_id, member_id, client_id, generation_id,
            errors, request_ts, ts and connection_id.

    Returns:
        One row per generation that a member received. The group with the most per minute first, its generations in
        order.

        - group_id (string): the group
        - protocol (string): classic, consumer (KIP-848), share (KIP-932) or streams (KIP-1071)
        - generation (bigint): the generation, or epoch
        - since (timestamp, UTC): its first JoinGroup, or an earlier REBALANCE_IN_PROGRESS; for an epoch, when it was
          first seen; null if unknown
        - until (timestamp, UTC): its first assignment; for an epoch, when the last member reached it; null if unknown
        - duration_us (bigint, µs): the time between both; null if unknown
        - by (string): the name of the first member
        - why (string): ``leave`` (it left, and others remained), ``join`` (it was not in the previous generation),
          ``coordinator`` (members got REBALANCE_IN_PROGRESS or ILLEGAL_GENERATION before one joined: a session expired,
          or the cause is not in the traces) or ``rejoin`` (it rejoined by itself), as in the view of groups
        - members (int, members): the members that received the generation
        - a_minute (bigint, generations): in the minute before
        - storm (boolean): whether `a_minute` reaches the limit of rule S012
        - connection_id (string): of the first member
    """
    events = group_events(lines).where(F.col("own"))
    generations = _generations(events).unionByName(_epochs(events))
    last_minute = (
        Window.partitionBy("group_id", "life").orderBy("began_at_us").rangeBetween(-int(WITHIN.default * 1_000_000), 0)
    )
    a_minute = F.col("generation") - F.min("generation").over(last_minute)
    rows = generations.withColumn("a_minute", a_minute).withColumn("storm", F.col("a_minute") >= GENERATIONS.default)
    return (
        rows.withColumn("most", F.max("a_minute").over(Window.partitionBy("group_id")))
        .orderBy(F.desc("most"), "group_id", "triggered_at_us", "generation")
        .select(
            "group_id.*", "protocol", "generation", F.timestamp_micros("triggered_at_us").alias("since"),
            F.timestamp_micros("ended_at_us").alias("until"),
            (F.col("ended_at_us") - F.col("triggered_at_us")).alias("duration_us"),
            "by", "why", "members", "a_minute", "storm", "connection_id",
        )
    )  # fmt: skip


def _generations(events: DataFrame) -> DataFrame:
    """Return the generations of the classic protocol: all members join, then all get their assignment."""
    ok, error = F.col("ok"), F.col("error")
    notifications = is_kind(EventKind.HEARTBEAT, EventKind.SYNC) & error.isin(*REJOIN_ERRORS)
    joins, leaves, syncs = is_kind(EventKind.JOIN) & ok, is_kind(EventKind.LEAVE) & ok, is_kind(EventKind.SYNC) & ok
    classic = events.where((F.col("protocol") == Protocol.CLASSIC.value) & (joins | leaves | syncs | notifications))
    events_in_lives = with_lives(classic.withColumn("observed_us", F.col("answered_us")), joins)
    # A leave, or REBALANCE_IN_PROGRESS, belongs to the generation that starts with the next joins.
    order = ("observed_us", "asked_us", "correlation_id")
    next_generation = next_value(F.col("generation"), joins, ("group_id", "life"), order)
    events_in_lives = events_in_lives.withColumn("round", F.when(syncs, F.col("generation")).otherwise(next_generation))

    def first_event(kind: Column) -> Column:
        return F.min(F.when(kind, F.struct("asked_us", "label", "connection_id", "member_key")))

    rounds = events_in_lives.groupBy("group_id", "life", "protocol", F.col("round").alias("generation")).agg(
        first_event(joins).alias("joined"),
        first_event(leaves).alias("left"),
        F.min(F.when(notifications, F.col("observed_us"))).alias("notified_at_us"),
        F.min(F.when(joins, F.col("observed_us"))).alias("began_at_us"),
        F.min(F.when(syncs, F.col("observed_us"))).alias("ended_at_us"),
        F.collect_set(F.when(joins, F.col("member_key"))).alias("joined_members"),
        F.collect_set(F.when(leaves, F.col("member_key"))).alias("left_members"),
    )
    previous_members = F.lag("joined_members").over(Window.partitionBy("group_id", "life").orderBy("generation"))
    has_left_first = (F.col("left.asked_us") < F.col("joined.asked_us")) & F.coalesce(
        F.size(F.array_except("previous_members", "left_members")) > 0, F.lit(True)
    )
    conditions = {
        "left": has_left_first,
        "is_new": ~F.coalesce(F.array_contains("previous_members", F.col("joined.member_key")), F.lit(False)),
        "was_told": F.col("notified_at_us") < F.col("joined.asked_us"),
    }
    cause_column = F.coalesce(
        *(F.when(conditions[fact], kind.value) for fact, kind in CAUSES.items()), F.lit(DEFAULT_CAUSE.value)
    )
    # If only syncs of a generation were seen, its cause is unknown.
    with_joins = rounds.withColumn("previous_members", previous_members).where(F.col("joined").isNotNull())
    cause = F.when(has_left_first, F.col("left")).otherwise(F.col("joined"))
    return with_joins.select(
        "group_id", "life", "protocol", "generation", "began_at_us", "ended_at_us",
        F.least("joined.asked_us", "notified_at_us").alias("triggered_at_us"), cause["label"].alias("by"),
        cause_column.alias("why"),
        F.size("joined_members").alias("members"), cause["connection_id"].alias("connection_id"),
    )  # fmt: skip


def _epochs(events: DataFrame) -> DataFrame:
    """Return the epochs of the newer protocols (KIP-848, KIP-932, KIP-1071): members move to an epoch individually."""
    reaches_epoch = is_kind(EventKind.JOIN, EventKind.HEARTBEAT) & F.col("ok") & (F.col("generation") > 0)
    is_epoch_event = (F.col("protocol") != Protocol.CLASSIC.value) & reaches_epoch
    first_reached = (
        events.where(is_epoch_event)
        .groupBy("group_id", "protocol", "generation", "member_key")
        .agg(
            F.min(F.struct("answered_us", "asked_us", "correlation_id", "label", "connection_id", "kind")).alias(
                "event"
            )
        )
    )
    frame = with_lives(
        first_reached.select(
            "group_id",
            "protocol",
            "generation",
            "member_key",
            F.col("event.answered_us").alias("observed_us"),
            "event.*",
        ),
        is_kind(EventKind.JOIN),
    )
    first = F.min(F.struct("observed_us", "label", "connection_id", "kind"))
    epochs = frame.groupBy("group_id", "life", "protocol", "generation").agg(
        first.alias("first"), F.max("observed_us").alias("ended_at_us"), F.count("*").cast("int").alias("members")
    )
    join_cause, coordinator_cause = CauseKind.JOIN.value, CauseKind.COORDINATOR.value
    cause = F.when(F.col("first.kind") == EventKind.JOIN.value, join_cause).otherwise(coordinator_cause)
    return epochs.select(
        "group_id", "life", "protocol", "generation", F.col("first.observed_us").alias("began_at_us"), "ended_at_us",
        F.col("first.observed_us").alias("triggered_at_us"), F.col("first.label").alias("by"), cause.alias("why"),
        "members",
        F.col("first.connection_id").alias("connection_id"),
    )  # fmt: skip
