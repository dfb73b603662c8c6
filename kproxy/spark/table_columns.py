"""The columns of the tables of `kproxy analyze`: their types, units and meanings, from the docstrings of the jobs."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from kproxy.spark.jobs import Job

_COLUMN = re.compile(r"- (?P<name>\w+) \((?P<type>\w+(?:<[^)]+>)?)(?:, (?P<unit>[^)]+))?\): (?P<meaning>.+)")


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """A column of a table: its name, Spark's name for its type, its unit (empty if it has none), and its meaning."""

    name: str
    type: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table: what it reports, what its rows are and how they are sorted, and its columns, in order.

    The column `cluster`, the last one in each table, is not listed.
    """

    text: str
    rows: str
    columns: tuple[ColumnDescription, ...]


def described(job: Job) -> TableDescription:
    """Return the description of a job's table.

    Raises:
        ValueError: The docstring has no such description.
    """
    text, _, sections = inspect.cleandoc(job.run.__doc__ or "").partition("\n\nArgs:\n")
    returns = inspect.cleandoc(sections.partition("\nReturns:\n")[2].partition("\n\nRaises:\n")[0])
    rows, *items = (_one_line(part) for part in re.split(r"\n\s*(?=- )", returns))
    columns = [match for item in items if (match := _COLUMN.fullmatch(item))]
    if not rows or not columns or len(columns) < len(items):
        raise ValueError(f"the docstring of {job.name} must describe its rows, and columns as: - name (type, unit): …")
    return TableDescription(
        text,
        rows,
        tuple(
            ColumnDescription(column["name"], column["type"], column["unit"] or "", column["meaning"])
            for column in columns
        ),
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
