"""Requests and responses of group members, for the jobs about groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.groups import EventKind, Protocol
from dissectors.groups.explanations import EVENT_KINDS, PROTOCOLS
from kproxy.spark.derived.exchanges import exchanges
from kproxy.spark.sentences import lookup, member_label

#: The APIs whose generation is a member epoch, with their protocols.
_BY_EPOCH: Final = {api: protocol for api, protocol in PROTOCOLS.items() if protocol is not Protocol.CLASSIC}

_BY_TIME: Final = ("asked_us", "correlation_id")


def with_qualified_groups(lines: DataFrame) -> DataFrame:
    """Return lines whose group_id is a struct of cluster and group_id: group names are unique only per cluster."""
    name = F.col("group_id")
    return lines.withColumn("group_id", F.when(name.isNotNull(), F.struct("cluster", "group_id")))


def group_events(lines: DataFrame) -> DataFrame:
    """Return the requests of group members and their outcomes, one row per request of an API in `EVENT_KINDS`.

    Returns:
        The columns of `exchanges`, with group_id from `with_qualified_groups`, and kind (of `EventKind`), protocol
        (null if the API does not show it), member_key (the member id; for a request without one, that of the
        connection's member, or else the connection), label (the member's display name), own (whether it is about
        membership: joins, syncs, heartbeats, leaves), ok (a response without an error).
    """
    api = F.col("api")
    events = exchanges(with_qualified_groups(lines), F.col("group_id").isNotNull() & api.isin(*EVENT_KINDS))
    epoch = F.col("epoch")
    by_epoch = api.isin(*_BY_EPOCH)
    kind = (
        F.when(by_epoch & (epoch == 0), EventKind.JOIN.value)
        .when(by_epoch & (epoch < 0), EventKind.LEAVE.value)
        .otherwise(lookup(api, {name: kind.value for name, kind in EVENT_KINDS.items()}))
    )
    by_connection = Window.partitionBy("group_id", "connection_id").orderBy("asked_us", "correlation_id")
    member = F.last("member_id", ignorenulls=True).over(by_connection)
    return (
        events.withColumns({"member_id": member, "kind": kind})
        .withColumns(
            {
                "protocol": lookup(api, {name: protocol.value for name, protocol in _BY_EPOCH.items()}),
                "member_key": F.coalesce("member_id", "connection_id"),
                "label": member_label(F.col("client_id"), F.coalesce("member_id", F.lit(""))),
                "own": is_kind(EventKind.JOIN, EventKind.SYNC, EventKind.HEARTBEAT, EventKind.LEAVE),
                "ok": F.col("error").isNull() & F.col("answered_us").isNotNull(),
            }
        )
        .withColumn("protocol", F.when(F.col("own"), F.coalesce("protocol", F.lit(Protocol.CLASSIC.value))))
    )


def is_kind(*kinds: EventKind) -> Column:
    """Return whether an event is of one of these kinds."""
    return F.col("kind").isin(*(kind.value for kind in kinds))


def next_value(value: Column, condition: Column, by: Sequence[str], order: Sequence[str] = _BY_TIME) -> Column:
    """Return the value of the first event, from this one on, that satisfies `condition`; null if there is none.

    The window scans from the end: for a window with an open end, Spark would read all remaining rows for each row.

    Args:
        value: The value of that event.
        condition: The condition.
        by: Columns that both events have in common.
        order: The sort order.
    """
    reversed_order = Window.partitionBy(*by).orderBy(*map(F.desc, order))
    frame = reversed_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.last(F.when(condition, value), ignorenulls=True).over(frame)


def with_lives(events: DataFrame, joins: Column) -> DataFrame:
    """Return events with `life`: a coordinator that lost the group restarts at generation 1, which is a new life.

    Otherwise a generation only repeats for a member that rejoins it, unless a member has left.

    Args:
        events: From `group_events`, with observed_us, the time to sort by.
        joins: Whether an event shows the generation, or epoch, that the group has reached.
    """
    group = Window.partitionBy("group_id").orderBy("observed_us", "asked_us", "correlation_id")
    reached = F.when(joins, F.col("generation"))
    previous = F.last("reached", ignorenulls=True).over(group.rowsBetween(Window.unboundedPreceding, -1))
    has_left = F.lag("kind").over(group) == EventKind.LEAVE.value
    starts_life = (F.col("reached") == 1) & ((previous > 1) | has_left)
    with_starts = events.withColumn("reached", reached).withColumn("begins", F.coalesce(starts_life, F.lit(False)))
    return with_starts.withColumn("life", F.count_if("begins").over(group)).drop("reached", "begins")
