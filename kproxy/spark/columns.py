"""Columns over rows of TRACE that several jobs use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F

from kproxy.spark.sentences import host


def client_name() -> Column:
    """Return the client id of a frame; the host if the client sends none or an empty one."""
    return F.coalesce(F.nullif("client_id", F.lit("")), host(F.col("client")))


def topic_name(entry: Column) -> Column:
    """Return the name of an entry of `topics`, or its id if the name is unknown."""
    return F.coalesce(entry["topic"], entry["topic_id"])


def topic_names() -> Column:
    """Return the distinct topic names of a line; a broker may split a topic into several entries. Never null."""
    return F.array_distinct(F.array_compact(array_or_empty(F.transform("topics", topic_name))))


def is_decoded(*apis: str) -> Column:
    """Return whether a line is a decoded response of one of these APIs, or of any API if none is given; never null."""
    is_response = (F.col("kind") == "response") & F.col("not_decoded").isNull()
    return is_response & F.coalesce(F.col("api").isin(*apis), F.lit(False)) if apis else is_response


def carries_records() -> Column:
    """Return whether a frame can carry record data: Produce requests, and responses of other APIs."""
    return F.col("kind") == F.when(F.col("api") == "Produce", "request").otherwise("response")


def view(by: str, value: Column, **others: Column) -> Column:
    """Return a struct for grouping: `by` is the kind of group, `value` its name, and `others` are further members."""
    columns = (column.alias(name) for name, column in others.items())
    return F.struct(F.lit(by).alias("by"), value.alias("value"), *columns)


def position_in(order: Iterable[str], column: str) -> Column:
    """Return the position of a text in `order`, for sorting."""
    return F.array_position(F.array(*map(F.lit, order)), F.col(column))


def direction() -> Column:
    """Return the direction of a frame or of an event: request or response."""
    return F.when(F.col("kind").isin("request", "response"), F.col("kind")).otherwise(F.col("direction"))


def constant_map(pairs: Mapping[int, int] | Mapping[int, str] | Mapping[str, str]) -> Column:
    """Return a Spark map as one expression: building a column for each key and value is slow."""
    literals = (f"{item}L" if isinstance(item, int) else f"'{item}'" for pair in pairs.items() for item in pair)
    return F.expr(f"map({', '.join(literals)})")


def computed_once(value: Column) -> Column:
    """Return a value that is computed once per row; Spark repeats a plain expression in the filters that it moves."""
    return F.explode(F.array(value))


def array_or_empty(array: Column) -> Column:
    """Return an array, empty instead of null."""
    return F.coalesce(array, F.array())


def list_over(value: Column, window: WindowSpec) -> Column:
    """Return the values of a window in its order, without nulls (which Sail would keep); never null."""
    return F.array_compact(F.collect_list(value).over(window))


def set_over(value: Column, window: WindowSpec) -> Column:
    """Return the distinct values of a window, in any order and without nulls; empty where Sail would return null."""
    return array_or_empty(F.collect_set(value).over(window))
