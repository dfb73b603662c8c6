"""Errors in a response by the topic that they are about."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_TOPIC_PATH = r"(?:topics|responses|topic_responses)\[(\d{1,9})\]"


def errors_about_topics() -> Column:
    """Return the errors about a topic; null for a Produce response in which only some of the topics have errors.

    The order of the topics in such a response may differ from the request's.
    """
    return F.when(
        (F.col("api") != "Produce") | (F.size(_topic_indexes()) == F.size("topics")),
        F.filter("errors", lambda error: topic_index(error).isNotNull()),
    )


def topic_index(error: Column) -> Column:
    """Return the index in `topics` of an error's topic, null if the error is not about a topic."""
    path = error["path"]
    # `topics` has the topics of all groups, so only indexes within the first group are valid in it.
    is_of_other_group = path.startswith("groups[") & ~path.startswith("groups[0]")
    index = F.nullif(F.regexp_extract(path, _TOPIC_PATH, 1), F.lit("")).cast("int")
    return F.when(~is_of_other_group & (index < F.size("topics")), index)


def _topic_indexes() -> Column:
    return F.array_distinct(F.array_compact(F.transform("errors", topic_index)))
