"""A table on a terminal: nothing is cut off. What does not fit beside the other columns stands below its row."""

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
#: A column of more than this share of the terminal is the first to go below.
_WIDE = 1 / 3
_DIM, _BOLD = Style(dim=True), Style(bold=True)


@dataclass(frozen=True, eq=False)
class Column:
    """A column: its heading, its cells, and whether they are numbers."""

    heading: str
    cells: Sequence[str]
    number: bool

    def width(self, heading: int) -> int:
        """Of its widest cell, or of its heading if that is wider."""
        return max(heading, *map(cell_len, self.cells))

    def pad(self, text: str, width: int) -> str:
        """A text in its column."""
        space = " " * (width - cell_len(text))
        return space + text if self.number else text + space


def write_columns(title: str, columns: Sequence[Column], note: str, file: TextIO) -> None:
    """Write a table of at least a row.

    Args:
        title: Stands above.
        columns: The first is never moved below; those without a value are left out.
        note: Stands below, if there is one.
        file: The terminal.
    """
    console = Console(file=file, highlight=False)
    columns = [columns[0], *(column for column in columns[1:] if any(column.cells))]
    widths = _fit(columns, console.width)
    below = [column for column in columns if column not in widths]
    room = console.width - len(_INDENT)
    console.print(Text(f"\n{title}\n", _BOLD))
    for heading in _headings(widths):
        console.print(Text(heading, _BOLD), soft_wrap=True)
    console.print(Text("─" * min(console.width, _together(widths)), _DIM))
    for place in range(len(columns[0].cells)):
        cells = (column.pad(column.cells[place], width) for column, width in widths.items())
        console.print(Text(_GAP.join(cells).rstrip()), soft_wrap=True)
        for line in _below(below, place, room):
            for part in line.wrap(console, room):
                part.rstrip()
                console.print(Text(_INDENT).append_text(part), soft_wrap=True)
    if note:
        console.print(Text(f"\n{note}", _DIM))


def _fit(columns: Sequence[Column], room: int) -> dict[Column, int]:
    """The columns that stand beside each other, and their widths."""
    widths = {column: column.width(cell_len(column.heading)) for column in columns}
    if _together(widths) > room:
        widths = {column: column.width(max(map(cell_len, column.heading.split()))) for column in columns}
    while _together(widths) > room and len(widths) > 1:
        others = list(widths)[1:]
        widest = max(others, key=widths.__getitem__)
        del widths[widest if widths[widest] > room * _WIDE else others[-1]]
    for column, width in widths.items():
        wanted = column.width(cell_len(column.heading))
        if _together(widths) - width + wanted <= room:
            widths[column] = wanted
    return widths


def _together(widths: dict[Column, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _headings(widths: dict[Column, int]) -> Iterator[str]:
    """Each in as many lines as it takes, the last of them just above the cells."""
    wrapped = [wrap(column.heading, width)[::-1] for column, width in widths.items()]
    for line in reversed(list(zip_longest(*wrapped, fillvalue=""))):
        cells = (column.pad(text, width) for (column, width), text in zip(widths.items(), line, strict=True))
        yield _GAP.join(cells).rstrip()


def _below(columns: Sequence[Column], place: int, room: int) -> Iterator[Text]:
    """The values of a row that stand below it, each with its name, as many on a line as fit."""
    line = Text()
    for column in columns:
        if not column.cells[place]:
            continue
        said = Text.assemble((f"{column.heading}: ", _DIM), column.cells[place])
        if line and line.cell_len + len(_GAP) + said.cell_len > room:
            yield line
            line = Text()
        line.append_text(Text(_GAP if line else "")).append_text(said)
    if line:
        yield line
