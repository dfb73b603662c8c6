"""The bytes of a frame, with one field and the findings highlighted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

#: Cells for a row of 16 bytes; a row of 8 bytes needs about half.
_WIDE_CELLS = 9 + 16 * 3 + 1 + 1 + 16
_OFFSET_WIDTH = 7


class HexView(ScrollView, can_focus=True):
    """Bytes in rows of 8 or 16.

    The half-open `span` is highlighted, as are the spans of findings, by severity. Moving the cursor posts the offset
    of the byte under it.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "hex--place", "hex--text", "hex--zero", "hex--span", "hex--cursor", "hex--error", "hex--warning", "hex--info",
    }  # fmt: skip
    DEFAULT_CSS = """
    HexView {
        background: $surface; padding: 0 1; overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-size-vertical: 1;
        & > .hex--place { text-style: dim; }
        & > .hex--text { text-style: dim; }
        & > .hex--zero { text-style: dim; }
        & > .hex--span { background: $primary; color: $text; }
        & > .hex--cursor { text-style: reverse; }
        & > .hex--error { color: $text-error; text-style: bold underline; }
        & > .hex--warning { color: $text-warning; text-style: bold underline; }
        & > .hex--info { color: $text-accent; text-style: underline; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l,right", "move(1)", show=False),
        Binding("h,left", "move(-1)", show=False),
        Binding("j,down", "row(1)", show=False),
        Binding("k,up", "row(-1)", show=False),
        Binding("g,home", "to(0)", show=False),
        Binding("G,end", "to(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
    ]

    span: reactive[tuple[int, int]] = reactive((0, 0))
    cursor: reactive[int] = reactive(-1)

    @dataclass
    class Pointed(Message):
        """Posted when the cursor moves to this byte of the frame."""

        offset: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._frame = b""
        self._first = 0
        self._finding_spans: Sequence[tuple[int, int, str]] = ()

    def show(self, frame: bytes, first: int = 0, finding_spans: Sequence[tuple[int, int, str]] = ()) -> None:
        """Show bytes of a frame, starting with its byte `first`; `finding_spans` are ``(start, end, severity)``."""
        self._frame, self._first, self._finding_spans = frame, first, finding_spans
        self.cursor = -1
        self.span = (0, 0)
        self.scroll_to(y=0, animate=False, immediate=True)
        self._measure()
        self.refresh()

    @property
    def row_bytes(self) -> int:
        """Bytes per row."""
        return 16 if self.scrollable_content_region.width >= _WIDE_CELLS else 8

    def _measure(self) -> None:
        rows = -(-len(self._frame) // self.row_bytes)
        self.virtual_size = Size(self.scrollable_content_region.width, rows)

    def on_resize(self) -> None:
        """Adapt the number of bytes per row."""
        self._measure()
        self.watch_span()

    def watch_span(self) -> None:
        """Scroll to the highlighted span."""
        if self.span[1] > self.span[0]:
            self._reveal(self.span[0], self.span[1] - 1)

    def _reveal(self, first: int, last: int | None = None) -> None:
        height = max(1, self.scrollable_content_region.height)
        top, bottom = (
            (position - self._first) // self.row_bytes for position in (first, first if last is None else last)
        )
        scroll_top = round(self.scroll_target_y)
        if bottom >= scroll_top + height:
            scroll_top = min(top, bottom - height + 1)
        scroll_top = min(scroll_top, top)
        self.scroll_to(y=scroll_top, animate=False, immediate=True)

    def render_line(self, y: int) -> Strip:
        """Render a row: offset, hex, text."""
        width = self.scrollable_content_region.width
        row_bytes = self.row_bytes
        start = (y + self.scroll_offset.y) * row_bytes
        row = self._frame[start : start + row_bytes]
        base_style = self.rich_style
        if not row:
            return Strip.blank(width, base_style)
        start += self._first
        styles = [self._style(start + index, byte) for index, byte in enumerate(row)]
        segments = [Segment(f"{start:>{_OFFSET_WIDTH}}  ", base_style + self._component_style("place"))]
        span_start, span_end = self.span
        for index, byte in enumerate(row):
            segments.append(Segment(f"{byte:02x}", base_style + styles[index]))
            offset = start + index
            continues_span = span_start <= offset < span_end - 1 and index < len(row) - 1
            gap = "  " if index == 7 and row_bytes == 16 else " "
            segments.append(
                Segment(gap, base_style + (self._component_style("span") if continues_span else Style.null()))
            )
        segments.append(Segment("   " * (row_bytes - len(row)) + " ", base_style))
        for index, byte in enumerate(row):
            char = chr(byte) if 0x20 <= byte < 0x7F else "."
            segments.append(Segment(char, base_style + self._component_style("text") + styles[index]))
        return Strip(segments).adjust_cell_length(width, base_style)

    def _component_style(self, name: str) -> Style:
        return self.get_component_rich_style(f"hex--{name}", partial=True)

    def _style(self, offset: int, byte: int) -> Style:
        style = self._component_style("zero") if byte == 0 else Style.null()
        for start, end, severity in self._finding_spans:
            if start <= offset < max(end, start + 1):
                style = self._component_style(severity)
                break
        if self.span[0] <= offset < self.span[1]:
            style += self._component_style("span")
        if offset == self.cursor:
            style += self._component_style("cursor")
        return style

    def _move_cursor(self, offset: int) -> None:
        if self._frame:
            self.cursor = self._first + max(0, min(offset - self._first, len(self._frame) - 1))
            self._reveal(self.cursor)
            self.post_message(self.Pointed(self.cursor))

    @property
    def _position(self) -> int:
        return self.cursor if self.cursor >= 0 else self.span[0]

    def action_move(self, count: int) -> None:
        """Move the cursor by this many bytes."""
        self._move_cursor(self._position + count)

    def action_row(self, count: int) -> None:
        """Move the cursor by this many rows."""
        self._move_cursor(self._position + count * self.row_bytes)

    def action_page(self, count: int) -> None:
        """Move the cursor by this many pages."""
        self._move_cursor(self._position + count * self.row_bytes * max(1, self.scrollable_content_region.height - 1))

    def action_to(self, offset: int) -> None:
        """Move the cursor to the first or last byte."""
        self._move_cursor(offset if offset >= 0 else self._first + len(self._frame) - 1)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked byte."""
        offset_in_widget = event.get_content_offset(self)
        if offset_in_widget is None:
            return
        row_bytes = self.row_bytes
        x = offset_in_widget.x - _OFFSET_WIDTH - 2
        width = 3 * row_bytes + (row_bytes == 16)
        if 0 <= x < width:
            byte_index = min((x - (x > 24 and row_bytes == 16)) // 3, row_bytes - 1)
        elif x > width:
            byte_index = x - width - 1
        else:
            return
        if 0 <= byte_index < row_bytes:
            self._move_cursor(self._first + (offset_in_widget.y + self.scroll_offset.y) * row_bytes + byte_index)
