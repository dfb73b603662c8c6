"""A table of an overview: plain values, which a page formats and sorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kproxy.browse.facts.texts import downsample
from kproxy.counting.counts import Severities
from kproxy.trace.formatting import safe

#: Number of parts in a cell of counts over time.
_SPARK: Final = 24


class ColumnKind(StrEnum):
    """The kind of a column's values; a page formats and aligns them accordingly."""

    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    DURATION = "duration"  # us
    RATE = "rate"  # per second
    TIME = "time"  # us since the epoch
    FINDINGS = "findings"  # numbers of errors, warnings and infos
    SPARK = "spark"  # counts in equal parts of time
    SPANS = "spans"  # `TimeSpan` values


class TimeSpan(NamedTuple):
    """A period on a time line: its begin and length in thousandths of the line, its length in ms, and its row."""

    begin: int
    length: int
    name: str
    ms: int
    row: int | None


@dataclass(frozen=True, slots=True)
class OverviewColumn:
    """A column. `style` colours its values that are not 0 or empty: error, warning, name, dim."""

    title: str
    kind: ColumnKind = ColumnKind.TEXT
    style: str = ""


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """A row: a stable key, a value for each column (None if unknown), how to show its frames, and further facts.

    `filter` selects its frames; without one, `row` is a row of the index to jump to. `facts` are pairs of a label and a
    text; `marks` are rows of the index with a label, such as "slowest". `styles` replace those of columns, by title.
    `reads_filter` selects the Fetch requests of a group, which do not name it.
    """

    key: str
    values: Sequence[Any]
    filter: str | None = None
    row: int | None = None
    facts: Sequence[tuple[str, str]] = ()
    marks: Sequence[tuple[str, int]] = ()
    styles: Mapping[str, str] = field(default_factory=dict)
    reads_filter: str | None = None


@dataclass(frozen=True, slots=True)
class OverviewTable:
    """Rows in their natural order. `sort` is the title of the initial sort column, after ``-`` if it descends.

    `more` is a sentence about rows that are not listed.
    """

    title: str
    about: str
    columns: Sequence[OverviewColumn]
    rows: list[OverviewRow] = field(default_factory=list)
    sort: str = ""
    more: str = ""


def table_json(table: OverviewTable, numbers_by_row: dict[int, int] | None = None) -> dict[str, Any]:
    """Return a table as JSON values; texts are safe to show. `numbers_by_row`, if given, replaces the row numbers."""

    def number(row: int | None) -> int | None:
        return row if numbers_by_row is None or row is None else numbers_by_row.get(row)

    def json_value(value: Any, kind: ColumnKind) -> Any:
        if kind is ColumnKind.SPANS:
            return [span._replace(row=number(span.row)) for span in value]
        return safe(value) if isinstance(value, str) else value

    return {
        "title": table.title,
        "about": table.about,
        "sort": table.sort,
        "more": table.more,
        "columns": [[column.title, column.kind, column.style] for column in table.columns],
        "rows": [
            {
                "key": safe(row.key),
                "values": [
                    json_value(value, column.kind) for value, column in zip(row.values, table.columns, strict=True)
                ],
                "filter": row.filter,
                "row": number(row.row),
                "styles": row.styles,
                "reads_filter": row.reads_filter,
                "facts": [[safe(label), safe(text)] for label, text in row.facts if text],
                "marks": [
                    [label, mark_number]
                    for label, marked_row in row.marks
                    if (mark_number := number(marked_row)) is not None
                ],
            }
            for row in table.rows
        ],
    }


def severities(counts: Severities) -> list[int] | None:
    """Return the value of a column of findings; None if there are none."""
    return [counts.error, counts.warning, counts.info] if any(counts) else None


def spark(counts: Sequence[int]) -> list[int] | None:
    """Return the value of a column of counts over time; None if all are 0."""
    return downsample(counts, _SPARK) if any(counts) else None


def microseconds(ns: int | None) -> int | None:
    """Return a time in ns as a column value in us; None if it is unknown."""
    return ns // 1000 if ns else None
