"""A live terminal view: new findings and clients scroll by as lines, with rolling tables below them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TextIO

from pyspark.sql import Row
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kproxy.spark.streaming.events import MicroBatch, QueryRows
from kproxy.spark.streaming.queries import Span
from kproxy.spark.streaming.sentences import LINE_FORMATS, format_rows
from kproxy.spark.streaming.windows import RollingWindows
from kproxy.spark.tables import cell
from kproxy.trace.formatting import duration, safe

#: Screen rows that are not table rows: the header, and for each table its title, column names, rule and footer.
_HEADER_LINES, _LINES_AROUND_TABLE = 2, 4
_KEYS = {"latency": ("api",), "errors": ("api", "client", "code")}


class Screen:
    """The live view on a terminal, as a context manager.

    Args:
        file: The terminal.
        title: The name of the traces that are followed.
        names: The queries.
        span: The time spans of the queries.
        rows: The maximum number of rows in a table, and of lines printed at once.
    """

    def __init__(self, file: TextIO, title: str, names: Sequence[str], span: Span, rows: int) -> None:
        self._title, self._max_rows, self._span = title, rows, span
        window, step = (timedelta(microseconds=us) for us in (span.window, span.step))
        self._rolling = {name: RollingWindows(_KEYS[name], window=window, step=step) for name in names if name in _KEYS}
        self._until: datetime | None = None
        self._console = Console(file=file)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=sys.stderr.isatty(),
            get_renderable=self._content,
        )

    def __enter__(self) -> Screen:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def handle(self, event: QueryRows | MicroBatch) -> None:
        """Show an event of a query."""
        if isinstance(event, MicroBatch):
            if event.until is not None:
                self._until = max(filter(None, (self._until, event.until.astimezone(UTC))))
        elif event.query in LINE_FORMATS:
            for line in format_rows(event.query, event.rows, self._max_rows):
                self._console.print(line, soft_wrap=True)
        else:
            self._rolling[event.query].add(event.rows)

    def refresh(self) -> None:
        """Redraw the view."""
        self._live.refresh()

    def _content(self) -> RenderableType:
        return Group(Text(), self._header(), *self._tables())

    def _header(self) -> Text:
        if self._until is None:
            return Text(f"{safe(self._title)}: waiting for lines", style="bold")
        age = max(timedelta(0), datetime.now(UTC) - self._until)
        return Text.assemble(
            (safe(self._title), "bold"), f"  as of {self._until:%H:%M:%S} UTC", (f"  {_age_text(age)} ago", "dim")
        )

    def _tables(self) -> Iterator[RenderableType]:
        if self._until is None:
            return
        free_lines = self._console.height - _HEADER_LINES - _LINES_AROUND_TABLE * len(self._rolling) - 1
        # Errors come first and take at most half of the lines, so that latency stays visible.
        for position, (name, rolling) in enumerate(sorted(self._rolling.items())):
            lines = list(_latency_rows(rolling) if name == "latency" else _error_rows(rolling))
            max_lines = max(1, min(self._max_rows, free_lines // (len(self._rolling) - position)))
            free_lines -= min(max_lines, len(lines))
            yield _table(name, self._span, lines, max_lines)


def _age_text(age: timedelta) -> str:
    seconds = round(age.total_seconds())
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def _table(name: str, span: Span, lines: list[list[str]], max_lines: int) -> RenderableType:
    if not lines:
        return Text(f"no {name}, last {_length_text(span.window)}", style="dim")
    more_text = f", and {len(lines) - max_lines} more" if len(lines) > max_lines else ""
    table = Table(
        title=f"{name}, last {_length_text(span.window)}{more_text}", title_justify="left", title_style="bold",
        box=box.SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for heading in _HEADS[name]:
        table.add_column(heading, justify="left" if heading in ("api", "client", "error") else "right", no_wrap=True)
    for line in lines[:max_lines]:
        table.add_row(*map(Text, line))
    return table


_HEADS = {
    "latency": ("api", "requests/s", "p50", "p90", "p99", "max", "p99 before"),
    "errors": ("error", "api", "client", "count", "share", "before"),
}


def _latency_rows(rolling: RollingWindows) -> Iterator[list[str]]:
    """Yield the rows of the latency table, slowest first."""
    previous_rows = rolling.previous_rows()
    for key, row in sorted(rolling.current_rows().items(), key=lambda item: (-(item[1]["p99_us"] or 0), item[0])):
        values = (cell(name, row[name]) for name in ("p50_us", "p90_us", "p99_us", "max_us"))
        yield [row["api"], f"{row['per_s']:,.1f}", *values, _cell_of(previous_rows.get(key), "p99_us")]


def _error_rows(rolling: RollingWindows) -> Iterator[list[str]]:
    """Yield the rows of the table of errors, most frequent first."""
    previous_rows = rolling.previous_rows()
    for key, row in sorted(rolling.current_rows().items(), key=lambda item: (-item[1]["responses"], str(item[0]))):
        share = f"{100 * row['share']:.3g} %"
        yield [row["error"], row["api"], safe(row["client"]), cell("", row["responses"]), share,
               _cell_of(previous_rows.get(key), "responses")]  # fmt: skip


def _cell_of(row: Row | None, name: str) -> str:
    value: Any = None if row is None else row[name]
    return cell(name, value)


def _length_text(us: int) -> str:
    for unit, name in ((60_000_000, "min"), (1_000_000, "s")):
        if us % unit == 0:
            return f"{us // unit} {name}"
    return duration(us)
