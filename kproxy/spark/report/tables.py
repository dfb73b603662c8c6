"""The jobs' tables for a page: the first rows, as plain values."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kproxy.spark.jobs import Job
from kproxy.trace.formatting import safe

#: The maximum number of rows in a table, and of each kind of item in a table with several kinds (column `by`).
MAX_ROWS = 300
MAX_PER_KIND = 60
_MAX_TEXT = 400
_POSITION, _NUMBER = "_place", "_number"
#: The column that separates kinds in tables without `by`: it is null in totals, but not in their parts.
_TOTALS = {"clients": "api", "fetches": "topic", "throttling": "since"}


@dataclass(frozen=True, slots=True)
class JobTable:
    """The table of a job.

    Attributes:
        name, help: The job's.
        columns: The name and kind of each column: duration (us), time (us since 1970), size (bytes), share (0 to 1),
            number, text or list (of texts).
        rows: The first rows, in order.
        more: Whether there are more rows.
    """

    name: str
    help: str
    columns: list[tuple[str, str]]
    rows: list[list[Any]]
    more: bool

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as dicts by column name."""
        names = [name for name, _ in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def cut(self, max_rows: int) -> JobTable:
        """Return the table with at most this many rows per kind; a fifth of that if there may be many kinds."""
        counts: dict[Any, int] = defaultdict(int)
        rows = []
        for row, record in zip(self.rows, self.records(), strict=True):
            is_total = record.get(_TOTALS.get(self.name, "")) is None
            kind = record.get("by", is_total)
            counts[kind] += 1
            if counts[kind] <= (max_rows // 5 if "by" in record else max_rows):
                rows.append(row)
        return JobTable(self.name, self.help, self.columns, rows, self.more or len(rows) < len(self.rows))


def build_job_table(job: Job, table: DataFrame) -> JobTable:
    """Return the first rows of a job's table."""
    columns = [(field.name, _column_kind(field)) for field in table.schema]
    plain_table = table.select(*(_plain_column(field) for field in table.schema))
    kind = _kind_of_row(job.name, table.columns)
    rows, more = _first_rows(plain_table) if kind is None else _first_rows_of_each_kind(plain_table, *kind)
    return JobTable(job.name, job.help, columns, [[_plain_value(value) for value in row] for row in rows], more)


def _kind_of_row(name: str, columns: list[str]) -> tuple[Column, int] | None:
    """Return the expression for the kind of a row, and the number of rows per kind; None if there is only one kind."""
    if "by" in columns:
        return F.col("by"), MAX_PER_KIND
    if name in _TOTALS:
        return F.col(_TOTALS[name]).isNull(), MAX_ROWS
    return None


def _first_rows(table: DataFrame) -> tuple[list[Any], bool]:
    rows = table.limit(MAX_ROWS + 1).collect()
    return rows[:MAX_ROWS], len(rows) > MAX_ROWS


def _first_rows_of_each_kind(table: DataFrame, kind: Column, max_rows: int) -> tuple[list[Any], bool]:
    """Return the first rows of each kind, in the table's order, and whether there are more."""
    with_position = table.withColumn(_POSITION, F.monotonically_increasing_id())
    with_number = with_position.withColumn(_NUMBER, F.row_number().over(Window.partitionBy(kind).orderBy(_POSITION)))
    rows = with_number.where(F.col(_NUMBER) <= max_rows + 1).orderBy(_POSITION).collect()
    selected = [row[: len(table.columns)] for row in rows if row[_NUMBER] <= max_rows]
    return selected, len(selected) < len(rows)


def _column_kind(field: T.StructField) -> str:
    name, data_type = field.name, field.dataType
    if isinstance(data_type, T.TimestampType):
        return "time"
    if isinstance(data_type, T.ArrayType):
        return "list"
    if not isinstance(data_type, T.NumericType):
        return "text"
    if name.endswith("_us"):
        return "duration"
    if name.endswith("bytes"):
        return "size"
    return "share" if name == "share" or name.endswith("_share") else "number"


def _plain_column(field: T.StructField) -> Column:
    """Return a column as plain values: times as numbers, which have no time zone, and nested values as JSON."""
    name, data_type = field.name, field.dataType
    if isinstance(data_type, T.TimestampType):
        return F.unix_micros(name).alias(name)
    if isinstance(data_type, T.ArrayType) and not isinstance(data_type.elementType, T.AtomicType):
        return F.transform(name, lambda element: F.to_json(element)).alias(name)
    if isinstance(data_type, T.StructType | T.MapType):
        return F.to_json(name).alias(name)
    return F.col(name)


def _plain_value(value: Any) -> Any:
    if isinstance(value, str):
        text = safe(value[:_MAX_TEXT])
        return text if len(value) <= _MAX_TEXT and len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
    if isinstance(value, list):
        return [_plain_value(element) for element in value[:20]]
    if isinstance(value, bool | int | float) or value is None:
        return value
    return str(value)
