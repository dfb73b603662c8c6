"""What stands still in groups, and for how long: a file for each thing that it can wait for.

Kinds and limits are those of the terminal UI (`kproxy.browse.overviews.groups`). A stall here is a row of `ROW`, told
once and as it was when it ended; times are microseconds.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.browse.overviews.groups import StallKind
from kproxy.browse.overviews.groups.stalls.wording import LONG
from kproxy.spark.sentences import duration

#: until_us is null if it lasts where the trace ends; lasted_us is to the one or the other. blamed_ids are the member
#: ids of blamed, `waiting` and `blamed` names of members.
ROW: Final = ("group_id", "stall", "severity", "since_us", "until_us", "lasted_us", "waiting", "blamed", "blamed_ids",
              "error", "times", "sentence", "look", "connection_id")  # fmt: skip


def stall_rows(found: DataFrame, kind: StallKind | Column, **columns: Column) -> DataFrame:
    """Rows of `ROW`: columns of `found`, or those given; what neither has is null, or empty, or the usual."""
    nobody = F.array().cast("array<string>")
    usual = {
        "stall": F.lit(kind.value) if isinstance(kind, StallKind) else kind,
        "severity": severity(F.col("lasted_us")),
        "waiting": nobody,
        "blamed": nobody,
        "blamed_ids": nobody,
        "error": F.lit(None).cast("string"),
        "times": F.lit(1).cast("long"),
    }
    have = usual | {name: F.col(name) for name in found.columns} | columns
    return found.select(*(have[name].alias(name) for name in ROW))


def severity(lasted_us: Column) -> Column:
    """The severity of waiting for so long."""
    return F.when(lasted_us >= LONG // 1000, "error").otherwise("warning")


def ago(us: Column) -> Column:
    """A time that has passed, in words."""
    return duration(F.greatest(us, F.lit(0)))


def have(labels: Column) -> Column:
    """The verb to their names."""
    return F.when(F.size(labels) > 1, "have").otherwise("has")


def labels(members: Column) -> Column:
    """Of structs of members their names."""
    return F.transform(members, lambda member: member["label"])


def ids(members: Column) -> Column:
    """Of structs of members their ids."""
    return F.transform(members, lambda member: member["who"])
