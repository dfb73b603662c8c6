"""Functions that compute the results of jobs again in plain Python from collected rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row


def percentile(values: Iterable[float], quantile: float) -> float | None:
    """Return a percentile, interpolated linearly between the two nearest values."""
    ordered = sorted(values)
    if not ordered:
        return None
    position = (len(ordered) - 1) * quantile
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None


def client_of(line: Row) -> str:
    """Return the client id of a row, or the client's host."""
    return line["client_id"] or line["client"].rpartition(":")[0]


def topics_of(line: Row) -> list[tuple[str, Row]]:
    """Return the topic entries of a row, each with its name or id."""
    return [(entry["topic"] or entry["topic_id"], entry) for entry in line["topics"] or ()]


def assert_rows(table: DataFrame, expected: Iterable[Mapping[str, Any] | tuple[Any, ...]]) -> None:
    """Assert that the table has these rows in this order; columns that a row omits are null."""
    rows = [tuple(row.get(name) for name in table.columns) if isinstance(row, Mapping) else row for row in expected]
    unknown_columns = {name for row in expected if isinstance(row, Mapping) for name in row} - set(table.columns)
    assert not unknown_columns
    actual_rows = [_rounded(tuple(row)) for row in table.collect()]
    assert actual_rows == [
        _rounded(tuple(row)) for row in table.sparkSession.createDataFrame(rows, table.schema).collect()
    ]


def _rounded(value: Any) -> Any:
    """Return a value whose numbers are rounded to ten digits, because sums depend on the order of their terms."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    return [_rounded(element) for element in value] if isinstance(value, list | tuple) else value
