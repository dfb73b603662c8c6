"""A table of any length; it only requests and draws visible rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import ClassVar, Final, Protocol

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from kproxy.outputs.text import Piece
from kproxy.trace.formatting import safe

#: The pieces of a cell.
Cell = Sequence[Piece]

#: A line of the screen: whether the cursor is there, and the cells; a message if there are no rows; None if blank.
_Content = tuple[bool, Sequence[Cell]] | str | None

#: The indentation of a message in place of rows.
_MARGIN: Final = "  "

#: The styles of pieces; each is a component class of the table (``table--error``).
STYLES = ("dim", "request", "response", "name", "error", "warning", "info", "topic", "bar")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column at least `width` cells wide, which takes `grow` shares of the remaining width.

    The higher `drop`, the sooner the column is dropped when room is short; a column with 0 is never dropped.
    """

    title: str
    width: int
    right: bool = False
    grow: int = 0
    drop: int = 0


class TableRows(Protocol):
    """The rows of a table. A row's key does not change with its position."""

    @property
    def columns(self) -> Sequence[TableColumn]:
        """The columns of the table."""

    def __len__(self) -> int: ...

    def key(self, position: int) -> Hashable:
        """Return the key of the row at a position."""

    def position(self, key: Hashable) -> int | None:
        """Return the position of the row with a key, or where it would be; None if it no longer exists."""

    def cells(self, position: int) -> Sequence[Cell]:
        """Return the cells of a row, one per column, as pieces of text with styles; control characters are escaped."""


class Table(ScrollView, can_focus=True):
    """Rows with a cursor.

    With `follow`, the cursor stays on the last row as rows are added, until the user moves it.

    Args:
        rows: The rows.
        empty_message: Returns the message shown if there are no rows.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--head",
        "table--cursor",
        "table--mark",
        *(f"table--{style}" for style in STYLES),
    }
    DEFAULT_CSS = """
    Table {
        background: $surface; overflow-x: hidden; scrollbar-size-vertical: 1;
        & > .table--head { text-style: bold; background: $panel; }
        & > .table--cursor { background: $surface-lighten-1; }
        &:focus > .table--cursor { background: $primary-muted; text-style: bold; }
        &:nocolor > .table--cursor, &:ansi > .table--cursor { background: $surface; text-style: reverse; }
        & > .table--dim { text-style: dim; }
        & > .table--request { color: $text-primary; }
        & > .table--response { color: $text-success; }
        & > .table--name { text-style: bold; }
        & > .table--error { color: $text-error; text-style: bold; }
        & > .table--warning { color: $text-warning; }
        & > .table--info { color: $text-accent; }
        & > .table--topic { color: $text-primary; }
        & > .table--bar { color: $text-primary; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "down", show=False),
        Binding("k,up", "move(-1)", "up", show=False),
        Binding("g,home", "first", "first", show=False),
        Binding("G,end", "last", "last", show=False),
        Binding("pagedown,ctrl+d,ctrl+f", "page(1)", "page down", show=False),
        Binding("pageup,ctrl+u,ctrl+b", "page(-1)", "page up", show=False),
        Binding("enter", "choose", "open", show=False),
    ]

    cursor: reactive[int] = reactive(0, repaint=False)
    follow: reactive[bool] = reactive(False, repaint=False)

    @dataclass
    class Moved(Message):
        """Posted when the cursor moves to the row with this `key`; None if there are no rows."""

        table: Table
        key: Hashable | None

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, Table.Moved)

    @dataclass
    class Chosen(Message):
        """Posted to open the row with this `key`."""

        table: Table
        key: Hashable

    @dataclass
    class HeadClicked(Message):
        """Posted when the title of a column is clicked; `column` is its index."""

        table: Table
        column: int

    @dataclass
    class FollowChanged(Message):
        """Posted when `follow` changes, by the user or because the cursor moved."""

        table: Table
        follow: bool

    def __init__(
        self, rows: TableRows, *, empty_message: Callable[[], str] = lambda: "", id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.rows = rows
        self._empty_message = empty_message
        self._message_lines: Sequence[str] = ()
        self._key: Hashable | None = None
        self._aim: Hashable | None = None
        self._widths: list[int] = []
        self._base = Style()
        self._drawn: dict[int, _Content] = {}  # by line of the screen
        self._sorted_by: tuple[int, bool] | None = None

    def update(self) -> None:
        """Update after rows may have changed; the cursor stays on its row."""
        count = len(self.rows)
        width = self.scrollable_content_region.width - len(_MARGIN)
        self._message_lines = (
            () if count else [line for text in self._empty_message().split("\n") for line in wrap(text, max(10, width))]
        )
        self._measure(count + 1)
        if self.follow and count:
            self._move_cursor(count - 1, silent=True)
        elif count and (aimed := self._aimed_position(count)) is not None:
            self._aim = None
            self._move_cursor(aimed)
        elif self._key is not None and (position := self.rows.position(self._key)) is not None and count:
            distance = min(position, count - 1) - self.cursor
            self.cursor += distance
            if distance:
                self.scroll_to(y=max(0, self.scroll_offset.y + distance), animate=False, immediate=True)
            self._post_moved(silent=True)
        else:
            self._move_cursor(min(self.cursor, max(0, count - 1)), silent=True)
        self._redraw()

    def mark_order(self, column: int | None, *, descending: bool) -> None:
        """Mark the column by which the rows are sorted; None marks none."""
        marked = None if column is None else (column, descending)
        if marked != self._sorted_by:
            self._sorted_by = marked
            self.refresh(Region(0, 0, self.size.width, 1))

    def measure_columns(self) -> None:
        """Recompute the widths of the columns after they have changed."""
        self._widths = _fit_widths(self.rows.columns, self.scrollable_content_region.width)
        self.refresh()

    def move_to_row_when_loaded(self, key: Hashable | None) -> None:
        """Move the cursor to a row as soon as it exists, unless the user moves it first; None cancels."""
        self._aim = key

    def _aimed_position(self, count: int) -> int | None:
        position = None if self._aim is None else self.rows.position(self._aim)
        return position if position is not None and position < count and self.rows.key(position) == self._aim else None

    def _measure(self, height: int) -> None:
        """Set the virtual height in lines. No new layout is needed if there is a scroll bar anyway."""
        size = Size(self.size.width, height)
        if min(height, self.virtual_size.height) > self.size.height:
            self.set_reactive(Table.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = height
        else:
            self.virtual_size = size

    def _redraw(self) -> None:
        """Redraw the lines that have changed."""
        for line in range(1, self.scrollable_content_region.height):
            if self._drawn.get(line, ()) != self._content(line):
                self.refresh(Region(0, line, self.size.width, 1))

    def _content(self, line: int) -> _Content:
        """Return the content of a line of the screen."""
        if self._message_lines:  # below a blank line
            return self._message_lines[line - 2] if 0 <= line - 2 < len(self._message_lines) else None
        position = line - 1 + self.scroll_offset.y
        return (position == self.cursor, self.rows.cells(position)) if position < len(self.rows) else None

    def go(self, position: int) -> None:
        """Move the cursor to a row; `follow` ends unless it is the last row."""
        self._aim = None
        self._move_cursor(max(0, min(position, len(self.rows) - 1)))

    def _move_cursor(self, position: int, *, silent: bool = False) -> None:
        count = len(self.rows)
        if not silent and self.follow and position < count - 1:
            self.follow = False
        self.cursor = position
        height = max(1, self.scrollable_content_region.height - 1)
        top = round(self.scroll_target_y)
        if position < top:
            self.scroll_to(y=position, animate=False, immediate=True)
        elif position >= top + height:
            self.scroll_to(y=position - height + 1, animate=False, immediate=True)
        self._post_moved(silent=silent)
        self._redraw()

    def _post_moved(self, *, silent: bool) -> None:
        key = self.rows.key(self.cursor) if self.cursor < len(self.rows) else None
        if key != self._key or not silent:
            self._key = key
            self.post_message(self.Moved(self, key))

    @property
    def key(self) -> Hashable | None:
        """The key of the row under the cursor."""
        return self._key

    def watch_follow(self, follow: bool) -> None:
        self.post_message(self.FollowChanged(self, follow))
        if follow:
            self.update()

    def action_move(self, rows: int) -> None:
        self.go(self.cursor + rows)

    def action_first(self) -> None:
        self.go(0)

    def action_last(self) -> None:
        self.go(len(self.rows) - 1)

    def action_page(self, pages: int) -> None:
        self.go(self.cursor + pages * max(1, self.scrollable_content_region.height - 2))

    def action_choose(self) -> None:
        if self._key is not None:
            self.post_message(self.Chosen(self, self._key))

    def _on_click(self, event: events.Click) -> None:  # type: ignore[override]
        position = event.y - 1 + self.scroll_offset.y
        if event.y == 0 and (column := self._column_at(event.x)) is not None:
            self.post_message(self.HeadClicked(self, column))
        elif event.y >= 1 and position < len(self.rows):
            self.go(position)
            if event.chain > 1:
                self.action_choose()

    def _column_at(self, x: int) -> int | None:
        for index, width in enumerate(self._widths):
            if width and x <= width:
                return index
            x -= width + bool(width)
        return None

    def on_mouse_scroll_up(self) -> None:
        self.follow = False

    def on_resize(self) -> None:
        self._widths = _fit_widths(self.rows.columns, self.scrollable_content_region.width)
        self.update()
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render several lines, with shared styles."""
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Render line `y` of the screen: the header, then rows."""
        width = self.scrollable_content_region.width
        base = self._base
        if not self._widths:
            self._widths = _fit_widths(self.rows.columns, width)
        if y == 0:
            style = base + self.get_component_rich_style("table--head", partial=True)
            titles = [[(self._title(number), "")] for number in range(len(self.rows.columns))]
            return self._strip(titles, style, width)
        content = self._drawn[y] = self._content(y)
        if content is None:
            return Strip.blank(width, base)
        if isinstance(content, str):
            return Strip([Segment(_MARGIN + safe(content), base)]).adjust_cell_length(width, base)
        is_cursor, cells = content
        if is_cursor:
            base += self.get_component_rich_style("table--cursor", partial=True)
        return self._strip(cells, base, width)

    def _title(self, column: int) -> str:
        title = self.rows.columns[column].title
        if self._sorted_by is None or self._sorted_by[0] != column:
            return title
        return title + ("▼" if self._sorted_by[1] else "▲")

    def _strip(self, cells: Sequence[Cell], base: Style, width: int) -> Strip:
        segments: list[Segment] = []
        for column, cell_width, cell in zip(self.rows.columns, self._widths, cells, strict=True):
            if not cell_width:
                continue
            pieces = [(safe(text), style) for text, style in cell]
            if column.right and (available := cell_width - sum(cell_len(text) for text, _ in pieces)) > 0:
                segments.append(Segment(" " * available, base))
                cell_width -= available
            for text, style in pieces:
                visible_text = (
                    text if cell_len(text) <= cell_width else set_cell_size(text, max(cell_width - 1, 0)) + "…"
                )
                segments.append(Segment(visible_text, base + self.style_of(style) if style else base))
                cell_width -= cell_len(visible_text)
                if cell_width <= 0:
                    break
            segments.append(Segment(" " * (cell_width + 1), base))
        return Strip(segments).adjust_cell_length(width, base)

    def style_of(self, name: str) -> Style:
        """Return the style with that name."""
        return self.get_component_rich_style(f"table--{name}", partial=True) if name in STYLES else Style.null()


def _fit_widths(columns: Sequence[TableColumn], width: int) -> list[int]:
    """Return the width of each column within `width`, separated by blanks; 0 for dropped columns."""
    remaining = dict(enumerate(columns))  # by index, as two columns may be equal
    while sum(column.width + 1 for column in remaining.values()) > width and any(
        column.drop for column in remaining.values()
    ):
        del remaining[max(remaining, key=lambda number: remaining[number].drop)]
    spare = max(0, width - sum(column.width + 1 for column in remaining.values()))
    shares = sum(column.grow for column in remaining.values())
    widths = {
        number: column.width + (spare * column.grow // shares if shares else 0) for number, column in remaining.items()
    }
    return [widths.get(number, 0) for number in range(len(columns))]
