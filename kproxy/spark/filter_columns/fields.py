"""The fields of the filter language as Spark columns over rows of TRACE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from kproxy.filters.fields import FilterField, Kind
from kproxy.trace.lines import KINDS


def column_of(field: FilterField) -> Column:
    """Return the column for `FilterField.read`: a value or null; for a field with `many`, an array without nulls.

    The array itself is never null. The values of `error` are structs of `code` and `name`.
    """
    if field.many:
        return F.coalesce(_MULTI_COLUMNS[field.name](), F.array())
    if field.name == "direction":
        return F.when(F.col("kind").isin("request", "response"), F.col("kind")).otherwise(F.col("direction"))
    value = F.col(field.name)
    if field.name == "marked":
        return F.coalesce(value, F.lit(False))
    if "kind" in field.columns and field.name != "kind":
        # Such a field is omitted from lines where it is 0 or false; only one kind of line has it.
        [kind] = [kind for kind, line in KINDS.items() if field.name in line.__struct_fields__]
        return F.coalesce(value, F.when(F.col("kind") == kind, F.lit(False if field.kind is Kind.FLAG else 0)))
    return value


def _entries_column(entries: str, key: str) -> Callable[[], Column]:
    return lambda: F.array_compact(F.transform(entries, lambda entry: entry[key]))


def _nested_entries_column(entries: str, key: str) -> Callable[[], Column]:
    return lambda: F.flatten(F.array_compact(F.transform(entries, lambda entry: entry[key])))


def _finding_column(*keys: str, repeated: Sequence[str] = ()) -> Callable[[], Column]:
    """Return a function that returns the values of `keys` in a line's findings, and of `repeated` in its repeats."""

    def build_column() -> Column:
        own_values = F.when(F.col("kind").isin("finding", "stall"), F.array(*keys))
        entries = [F.coalesce(_entries_column("findings", key)(), F.array()) for key in keys]
        entries += [F.coalesce(_entries_column("repeats", key)(), F.array()) for key in repeated]
        return F.array_compact(F.concat(*entries, F.coalesce(own_values, F.array())))

    return build_column


def _software_column() -> Column:
    name = F.col("software_name")
    full_name = F.concat(name, F.lit(" "), F.col("software_version"))  # null without a version
    return F.when(name.isNotNull(), F.array_compact(F.array(name, full_name)))


def _errors_column() -> Column:
    no_error = F.array(F.struct(F.lit(0).cast("long").alias("code"), F.lit("NONE").alias("name")))
    is_response = (F.col("kind") == "response") & F.col("not_decoded").isNull()
    errors = F.transform("errors", lambda entry: F.struct(entry["code"].alias("code"), entry["name"].alias("name")))
    return F.when(F.size("errors") > 0, errors).when(is_response, no_error)


def _bytes_column() -> Column:
    return F.when(F.col("bytes").isNotNull(), F.array("bytes")).otherwise(_entries_column("topics", "bytes")())


_MULTI_COLUMNS: Mapping[str, Callable[[], Column]] = {
    "client": lambda: F.array_compact(F.array("client_id", "client")),
    "broker": lambda: F.col("brokers"),
    "rewritten": _entries_column("rewritten", "path"),
    "waiting": lambda: F.col("waiting"),
    "waiting_ids": lambda: F.col("waiting_ids"),
    "blamed": lambda: F.col("blamed"),
    "blamed_ids": lambda: F.col("blamed_ids"),
    "topic": _entries_column("topics", "topic"),
    "topic_id": _entries_column("topics", "topic_id"),
    "partition": _nested_entries_column("topics", "partitions"),
    "records": _entries_column("topics", "records"),
    "batches": _entries_column("topics", "batches"),
    "compression": _nested_entries_column("topics", "compression"),
    "lag": _entries_column("topics", "lag"),
    "marker": _entries_column("markers", "topic"),
    "held": _entries_column("held", "topic"),
    "task": lambda: F.col("tasks"),
    "acquired": _entries_column("acquired", "topic"),
    "acknowledged": _entries_column("acknowledged", "type"),
    "age": lambda: F.array_compact(_nested_entries_column("topics", "ages_ms")()),
    "base_offset": lambda: F.array_compact(_nested_entries_column("topics", "offsets")()),
    "bytes": _bytes_column,
    "software": _software_column,
    "error": _errors_column,
    "finding": _finding_column("code", "name", repeated=("code",)),
    "severity": _finding_column("severity", repeated=("severity",)),
    "blame": _finding_column("blame"),
    "message": _finding_column("message"),
    "hint": _finding_column("hint"),
    "expected": _finding_column("expected"),
    "got": _finding_column("got"),
}
