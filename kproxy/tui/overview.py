"""Base of the overview views: a table of items, and a text about the item under the cursor."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from kproxy.browse.facts import texts
from kproxy.browse.session import BrowseSession
from kproxy.counting.counts import Severities
from kproxy.trace.formatting import duration, safe
from kproxy.tui.dialogs import Menu
from kproxy.tui.filter_status import empty_table_message
from kproxy.tui.table import Cell, Table, TableColumn
from kproxy.tui.view import View

T = TypeVar("T")

#: Minimum number of seconds between two updates of an overview; the pause is longer if updates are slow.
_INTERVAL_S = 0.5
_UPDATE_SHARE = 20


class ListedRows(Generic[T]):
    """Items as rows of a table."""

    def __init__(
        self, columns: Sequence[TableColumn], key: Callable[[T], Hashable], cells: Callable[[T], Sequence[Cell]]
    ):
        self.columns = columns
        self._key = key
        self._cells = cells
        self._items: Sequence[T] = ()
        self._positions: dict[Hashable, int] = {}

    def set_items(self, items: Sequence[T]) -> None:
        """Show these items."""
        self._items = items
        self._positions = {self._key(item): position for position, item in enumerate(items)}

    def item(self, key: Hashable) -> T | None:
        """Return the item with that key."""
        position = self._positions.get(key)
        return None if position is None else self._items[position]

    def __len__(self) -> int:
        return len(self._items)

    def key(self, position: int) -> Hashable:
        """See `TableRows`."""
        return self._key(self._items[position])

    def position(self, key: Hashable) -> int | None:
        """See `TableRows`."""
        return self._positions.get(key)

    def cells(self, position: int) -> Sequence[Cell]:
        """See `TableRows`."""
        return self._cells(self._items[position])


class OverviewView(View, Generic[T]):
    """A table of items, and a text about the item under the cursor. Subclasses define the items and the text."""

    DEFAULT_CSS = """
    OverviewView { layout: vertical; }
    OverviewView > Table { height: 1fr; min-height: 4; padding: 0 1; }
    OverviewView > .about {
        height: auto; max-height: 50%; border-top: solid $panel; padding: 0 1; background: $surface;
    }
    OverviewView > .about Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "its frames", show=False),
        Binding("o", "sort", "sort"),
        Binding("escape", "app.view(1)", "frames", show=False),
    ]
    columns: ClassVar[Sequence[TableColumn]]
    effect: ClassVar[str] = "lists items in matching rows; figures cover all their traffic"
    #: Letter, name and sort key of each sort order; the highest value is first.
    orders: ClassVar[Sequence[tuple[str, str, Callable[[Any], Any]]]]

    def __init__(self, session: BrowseSession, name: str) -> None:
        super().__init__(id=name)
        self.session = session
        self._listed: ListedRows[T] = ListedRows(self.columns, self.key, self.cells)
        self.table = Table(
            self._listed, empty_message=lambda: empty_table_message(session, _lowercase_title(self.title))
        )
        self._text_pane = Static()
        self._order = self.orders[0]
        self._reverse = False
        self._column: int | None = None  # the column that the user has clicked, which replaces `_order`
        self._updated_at = self._update_s = 0.0

    @abstractmethod
    def items(self) -> list[T]:
        """Return the current items."""

    @abstractmethod
    def omitted_items(self) -> tuple[int, str]:
        """Return how many items are not listed because there are too many, and what they are called."""

    @abstractmethod
    def key(self, item: T) -> Hashable:
        """Return a stable identity of an item."""

    @abstractmethod
    def cells(self, item: T) -> Sequence[Cell]:
        """Return the cells of an item's row."""

    @abstractmethod
    def item_text(self, item: T) -> Text:
        """Return the text about an item."""

    @abstractmethod
    def open(self, item: T) -> None:
        """Show the frames of an item."""

    def compose(self) -> ComposeResult:
        """Create the table and the text."""
        yield self.table
        yield VerticalScroll(self._text_pane, classes="about")

    @property
    def chosen(self) -> T | None:
        """The item under the cursor."""
        return self._listed.item(self.table.key)

    def update(self) -> bool:
        """See `View`."""
        now = time.monotonic()
        if now - self._updated_at < max(_INTERVAL_S, _UPDATE_SHARE * self._update_s):
            return False
        self.refresh_items()
        self._updated_at = time.monotonic()
        self._update_s = self._updated_at - now
        return True

    def refresh_items(self) -> None:
        """Update the table and the text."""
        column = self._column
        if column is None:
            items = sorted(self.items(), key=self._order[2], reverse=not self._reverse)
        else:
            values = [(_sort_value(self.cells(item)[column]), item) for item in self.items()]
            items = [item for _, item in sorted(values, key=lambda element: element[0], reverse=not self._reverse)]
        self._listed.set_items(items)
        self.table.update()
        self.update_text()

    @on(Table.Moved)
    def update_for_cursor(self) -> None:
        """Update the text for the new item under the cursor."""
        self.update_text()

    def update_text(self) -> None:
        """Show the text about the item under the cursor."""
        item = self.chosen
        self.show_text(Text() if item is None else self.item_text(item))

    def show_text(self, text: Text) -> None:
        """Show a text below the table, and the number of unlisted items."""
        omitted_count, items = self.omitted_items()
        if omitted_count:
            text.append(f"\n{omitted_count:,} {items} not listed", "yellow")
        self._text_pane.update(text)

    @property
    def first(self) -> Table:
        """See `View`."""
        return self.table

    @on(Table.Chosen)
    def action_open(self) -> None:
        """Show the frames of the item under the cursor."""
        if (item := self.chosen) is not None:
            self.open(item)

    @work
    async def action_sort(self) -> None:
        """Choose the sort order; choosing it again reverses it."""
        choices = [(letter, name, "") for letter, name, _ in self.orders]
        name = await self.app.push_screen_wait(Menu("sort by", choices))
        if name is not None:
            order = next(order for order in self.orders if order[1] == name)
            self._reverse = self._column is None and order is self._order and not self._reverse
            self._order, self._column = order, None
            self._show_order()

    @on(Table.HeadClicked)
    def sort_by_column(self, event: Table.HeadClicked) -> None:
        """Sort by the clicked column: texts ascending, numbers descending; another click reverses the order."""
        event.stop()
        if event.column == self._column:
            self._reverse = not self._reverse
        else:
            values = [_sort_value(self.cells(item)[event.column]) for item in self.items()]
            self._column, self._reverse = event.column, bool(values) and all(value[0] < 0 for value in values)
        self._show_order()

    def _show_order(self) -> None:
        self.table.mark_order(self._column, descending=not self._reverse)
        self.refresh_items()
        self.table.go(0)

    def jump(self, row: int) -> None:
        """Show one exchange."""
        self.post_message(self.Jump(row))

    def narrow(self, text: str) -> None:
        """Show the frames that match a filter."""
        self.post_message(self.Narrow(text))


def _lowercase_title(title: str) -> str:
    return title if title[1].isupper() else title.lower()


_NUMBER = re.compile(r"(-?[\d,]+(?:\.\d+)?) ?(us|µs|ms|s|min|h|B|KB|MB|GB|E|W|i)?\b")
_UNITS = {
    "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "min": 60, "h": 3600, "KB": 1e3, "MB": 1e6, "GB": 1e9, "E": 1e6, "W": 1e3,
}  # fmt: skip


def _sort_value(cell: Cell) -> tuple[float, str]:
    """Return the sort key of a cell: the number at its beginning, scaled by its unit.

    A cell without a number sorts below those with one, by its text; an empty cell sorts lowest.
    """
    text = "".join(piece for piece, _ in cell).strip()
    match = _NUMBER.match(text)
    if match is None:
        return -2.0 if not text else -1.0, text.lower()
    return max(0.0, float(match[1].replace(",", "")) * _UNITS.get(match[2] or "", 1)), ""


def severity_cell(counts: Severities) -> Cell:
    """Return the number of findings by severity, e.g. ``2E 1W``."""
    letters = ((counts.error, "E", "error"), (counts.warning, "W", "warning"), (counts.info, "i", "info"))
    return [(f"{count}{letter} ", style) for count, letter, style in letters if count]


def latency_cell(us: int | None, *, slow: int = 1_000_000) -> Cell:
    """Return a latency, highlighted if it is at least `slow` us."""
    return [(duration(us), "warning" if us is not None and us >= slow else "")]


def count_cell(number: int, style: str = "") -> Cell:
    """Return a number; empty for 0."""
    return [(f"{number:,}", style)] if number else []


def sparkline(counts: Sequence[int], width: int) -> str:
    """Return a sparkline of the last `width` counts; the highest is a full block."""
    shown_counts = list(counts)[-width:]
    highest = max(shown_counts, default=0)
    if not highest:
        return ""
    return "".join(" " if not count else "▁▂▃▄▅▆▇█"[min(7, count * 8 // (highest + 1))] for count in shown_counts)


def names_and_counts(pairs: Sequence[tuple[str, int]]) -> str:
    """Return names with their counts, safe to show, e.g. ``NOT_LEADER 3x, UNKNOWN 1x``."""
    return safe(texts.names_and_counts(pairs))


def lines(*rows: tuple[str, str | Text]) -> Text:
    """Return ``name: text`` lines; those without text are omitted."""
    text = Text()
    for name, value in rows:
        if value:
            text.append(f"{name}: " if name else "", "dim")
            text.append_text(value if isinstance(value, Text) else Text(safe(value)))
            text.append("\n")
    text.rstrip()
    return text
