"""Tables on a terminal. Values are never truncated: columns that do not fit are written below their row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import TextIO

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from kproxy.outputs.console import Console

_GAP = "  "
_INDENT = " " * 4
#: Columns wider than this share of the terminal are the first to be moved below.
_WIDE_SHARE = 1 / 3
_DIM, _BOLD = Style(dim=True), Style(bold=True)


@dataclass(frozen=True, eq=False)
class Column:
    """A column: its heading, its cells, and whether these are numbers."""

    heading: str
    cells: Sequence[str]
    number: bool

    def width(self, min_width: int) -> int:
        """Return the width of the widest cell, but at least `min_width`."""
        return max(min_width, *map(cell_len, self.cells))

    def pad(self, text: str, width: int) -> str:
        """Return a text padded to a width; numbers are right-aligned."""
        space = " " * (width - cell_len(text))
        return space + text if self.number else text + space


def write_columns(title: str, columns: Sequence[Column], note: str, file: TextIO) -> None:
    """Write a table with at least one row.

    Args:
        title: Written above the table.
        columns: The first one is never moved below the row; columns without any value are omitted.
        note: Written below the table unless empty.
        file: The terminal.
    """
    console = Console(file=file, highlight=False)
    columns = [columns[0], *(column for column in columns[1:] if any(column.cells))]
    widths = _fit_columns(columns, console.width)
    lower_columns = [column for column in columns if column not in widths]
    available_width = console.width - len(_INDENT)
    console.print(Text(f"\n{title}\n", _BOLD))
    for heading in _headings(widths):
        console.print(Text(heading, _BOLD), soft_wrap=True)
    console.print(Text("─" * min(console.width, _total_width(widths)), _DIM))
    for index in range(len(columns[0].cells)):
        cells = (column.pad(column.cells[index], width) for column, width in widths.items())
        console.print(Text(_GAP.join(cells).rstrip()), soft_wrap=True)
        for line in _values_below(lower_columns, index, available_width):
            for wrapped_line in line.wrap(console, available_width):
                wrapped_line.rstrip()
                console.print(Text(_INDENT).append_text(wrapped_line), soft_wrap=True)
    if note:
        console.print(Text(f"\n{note}", _DIM))


def _fit_columns(columns: Sequence[Column], available_width: int) -> dict[Column, int]:
    """Return the columns that fit side by side, with their widths."""
    widths = {column: column.width(cell_len(column.heading)) for column in columns}
    if _total_width(widths) > available_width:
        widths = {column: column.width(max(map(cell_len, column.heading.split()))) for column in columns}
    while _total_width(widths) > available_width and len(widths) > 1:
        removable = list(widths)[1:]
        widest = max(removable, key=widths.__getitem__)
        del widths[widest if widths[widest] > available_width * _WIDE_SHARE else removable[-1]]
    for column, width in widths.items():
        preferred = column.width(cell_len(column.heading))
        if _total_width(widths) - width + preferred <= available_width:
            widths[column] = preferred
    return widths


def _total_width(widths: dict[Column, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _headings(widths: dict[Column, int]) -> Iterator[str]:
    """Yield the lines of the wrapped headings, aligned to the bottom."""
    wrapped = [wrap(column.heading, width)[::-1] for column, width in widths.items()]
    for line in reversed(list(zip_longest(*wrapped, fillvalue=""))):
        cells = (column.pad(text, width) for (column, width), text in zip(widths.items(), line, strict=True))
        yield _GAP.join(cells).rstrip()


def _values_below(columns: Sequence[Column], index: int, available_width: int) -> Iterator[Text]:
    """Yield the values below a row, each with its heading, as many per line as fit."""
    line = Text()
    for column in columns:
        if not column.cells[index]:
            continue
        value = Text.assemble((f"{column.heading}: ", _DIM), column.cells[index])
        if line and line.cell_len + len(_GAP) + value.cell_len > available_width:
            yield line
            line = Text()
        line.append_text(Text(_GAP if line else "")).append_text(value)
    if line:
        yield line
