"""Errors of a response by the topic that they are about."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_PLACE = r"(?:topics|responses|topic_responses)\[(\d{1,9})\]"


def errors_about_topics() -> Column:
    """The errors that are about a topic; null in a Produce response for several topics of which some have none.

    The order of its topics may differ from the request's.
    """
    return F.when(
        (F.col("api") != "Produce") | (F.size(_topic_indexes()) == F.size("topics")),
        F.filter("errors", lambda error: topic_index(error).isNotNull()),
    )


def topic_index(error: Column) -> Column:
    """The index in `topics` of an error's topic, null if the error is not about a topic."""
    path = error["path"]
    of_other_group = path.startswith("groups[") & ~path.startswith("groups[0]")  # one list has the topics of all groups
    index = F.nullif(F.regexp_extract(path, _PLACE, 1), F.lit("")).cast("int")
    return F.when(~of_other_group & (index < F.size("topics")), index)


def _topic_indexes() -> Column:
    return F.array_distinct(F.array_compact(F.transform("errors", topic_index)))
