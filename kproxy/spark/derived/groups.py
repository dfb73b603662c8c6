"""What members of groups asked and were answered, for the jobs about groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kproxy.groups import EventKind, Protocol
from kproxy.groups.explanations import KINDS, PROTOCOLS
from kproxy.spark.derived.exchanges import exchanges
from kproxy.spark.sentences import chosen, member_label

#: APIs whose generation is a member's epoch.
_BY_EPOCH: Final = {api: each for api, each in PROTOCOLS.items() if each is not Protocol.CLASSIC}

_BY_TIME: Final = ("asked_us", "correlation_id")


def qualified(lines: DataFrame) -> DataFrame:
    """Lines whose group_id is a struct of cluster and group_id: groups of two clusters may have the same name."""
    name = F.col("group_id")
    return lines.withColumn("group_id", F.when(name.isNotNull(), F.struct("cluster", "group_id")))


def group_events(lines: DataFrame) -> DataFrame:
    """What was asked for a group and what became of it, a row a request of `KINDS`.

    Returns:
        The columns of `exchanges`, with group_id as `qualified` makes it, and kind (of `EventKind`), protocol (null
        where the API says nothing of it), who (the member id, of a request without one that of the member whose
        connection it is, or the connection), label (of a member, for people), own (it is about being a member: joins,
        syncs, beats, leaves), ok (answered, and without an error).
    """
    api = F.col("api")
    events = exchanges(qualified(lines), F.col("group_id").isNotNull() & api.isin(*KINDS))
    epoch = F.col("epoch")
    by_epoch = api.isin(*_BY_EPOCH)
    kind = (
        F.when(by_epoch & (epoch == 0), EventKind.JOIN.value)
        .when(by_epoch & (epoch < 0), EventKind.LEAVE.value)
        .otherwise(chosen(api, {name: kind.value for name, kind in KINDS.items()}))
    )
    speaks = Window.partitionBy("group_id", "connection_id").orderBy("asked_us", "correlation_id")
    member = F.last("member_id", ignorenulls=True).over(speaks)
    return (
        events.withColumn("member_id", member)
        .withColumns(
            {
                "kind": kind,
                "protocol": chosen(api, {name: each.value for name, each in _BY_EPOCH.items()}),
                "who": F.coalesce("member_id", "connection_id"),
                "label": member_label(F.col("client_id"), F.coalesce("member_id", F.lit(""))),
                "own": is_kind(EventKind.JOIN, EventKind.SYNC, EventKind.HEARTBEAT, EventKind.LEAVE),
                "ok": F.col("error").isNull() & F.col("answered_us").isNotNull(),
            }
        )
        .withColumn("protocol", F.when(F.col("own"), F.coalesce("protocol", F.lit(Protocol.CLASSIC.value))))
    )


def is_kind(*kinds: EventKind) -> Column:
    """Whether an event is of one of these kinds."""
    return F.col("kind").isin(*(kind.value for kind in kinds))


def coming(value: Column, when: Column, by: Sequence[str], order: Sequence[str] = _BY_TIME) -> Column:
    """The value of the first event, from this one on, that `when` holds for; null if none comes.

    It looks from the end on: of a window that is open at its end Spark reads all that is left for each of its rows.

    Args:
        value: Of that event.
        when: Whether an event is one.
        by: What both events have in common.
        order: What they are put in order by.
    """
    backwards = Window.partitionBy(*by).orderBy(*map(F.desc, order))
    frame = backwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.last(F.when(when, value), ignorenulls=True).over(frame)


def in_lives(events: DataFrame, joins: Column) -> DataFrame:
    """With `life`: a coordinator that has lost the group begins at generation 1 again, which is another one.

    Else a generation comes again only for a member that joins once more into it, and not when one has left.

    Args:
        events: Of `group_events`, with heard_us, the time that they are put in order by.
        joins: Which of them say what generation, or epoch, the group has reached.
    """
    group = Window.partitionBy("group_id").orderBy("heard_us", "asked_us", "correlation_id")
    reached = F.when(joins, F.col("generation"))
    before = F.last("reached", ignorenulls=True).over(group.rowsBetween(Window.unboundedPreceding, -1))
    left = F.lag("kind").over(group) == EventKind.LEAVE.value
    begins = (F.col("reached") == 1) & ((before > 1) | left)
    each = events.withColumn("reached", reached).withColumn("begins", F.coalesce(begins, F.lit(False)))
    return each.withColumn("life", F.count_if("begins").over(group)).drop("reached", "begins")
