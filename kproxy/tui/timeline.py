"""A timeline: one lane per member or transactional id, events as characters, and a cursor that opens frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kproxy.groups.timeline import LEADER, Cell, Drawing, Grid, Mark, Window
from kproxy.trace.formatting import safe

_LABEL_WIDTH = 24
#: Lines above the lanes: generations, times.
_HEAD_LINES = 2


class Timeline(Widget, can_focus=True):
    """Shows a `Drawing`; follows the present until the user moves it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "line--dim", "line--head", "line--cursor", "line--error", "line--warning", "line--info", "line--member",
        "line--event",
    }  # fmt: skip
    DEFAULT_CSS = """
    Timeline {
        height: 1fr; min-height: 5; background: $surface; padding: 0 1; border-top: solid $panel;
        & > .line--dim { text-style: dim; }
        & > .line--head { color: $text-accent; }
        & > .line--cursor { text-style: reverse; }
        & > .line--error { color: $text-error; text-style: bold; }
        & > .line--warning { color: $text-warning; text-style: bold; }
        & > .line--info { color: $text-accent; }
        & > .line--member { color: $text-success; }
        & > .line--event { text-style: bold; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l,right", "across(1)", show=False),
        Binding("h,left", "across(-1)", show=False),
        Binding("j,down", "lane(1)", show=False),
        Binding("k,up", "lane(-1)", show=False),
        Binding("L", "event(1)", show=False),
        Binding("H", "event(-1)", show=False),
        Binding("plus,equals_sign", "zoom(0.5)", show=False),
        Binding("minus", "zoom(2)", show=False),
        Binding("less_than_sign", "pan(-0.5)", show=False),
        Binding("greater_than_sign", "pan(0.5)", show=False),
        Binding("0", "whole", show=False),
        Binding("enter", "choose", show=False),
    ]

    @dataclass
    class Pointed(Message):
        """Posted when the cursor moves to this cell of a lane."""

        lane: str
        cell: Cell

    @dataclass
    class Chosen(Message):
        """Posted to show the row of the cell under the cursor."""

        row: int

    def __init__(self) -> None:
        super().__init__()
        self._drawing: Drawing | None = None
        self._window: Window | None = None
        self._grid: Grid | None = None
        self._follows_latest = True
        self._lane = 0
        self._column = 0
        self._top = 0

    def show(self, drawing: Drawing | None) -> None:
        """Show the current state of a drawing; show the whole time span if its name differs from the last one's."""
        is_new = drawing is None or self._drawing is None or drawing.name != self._drawing.name
        self._drawing = drawing
        if is_new:
            self._lane = self._top = 0
            self._follows_latest = True
            self._window = None
        self._lay_out()

    def _lay_out(self) -> None:
        drawing, columns = self._drawing, self._columns
        if drawing is None or columns < 1:
            self._grid = None
        else:
            if self._window is None or self._follows_latest:
                self._window = Window.around(drawing.first_at, max(drawing.now, drawing.first_at + 1))
            self._grid = drawing.lay_out(self._window, columns)
            self._lane = min(self._lane, max(0, len(drawing.lanes) - 1))
            self._column = min(self._column, columns - 1)
        self.refresh()

    @property
    def _columns(self) -> int:
        return self.content_size.width - _LABEL_WIDTH - 1

    def on_resize(self) -> None:
        """Adapt the number of columns."""
        self._lay_out()

    def render_line(self, y: int) -> Strip:
        """Render generations, times, then lanes; a legend below if there is room."""
        width, base = self.content_size.width, self.rich_style
        grid, drawing = self._grid, self._drawing
        if grid is None or drawing is None:
            return Strip.blank(width, base)
        if y == 0:
            return self._marks_strip(grid.generations, drawing.heading, width)
        if y == 1:
            return self._marks_strip(grid.times, "time (UTC)", width)
        lane = self._top + y - _HEAD_LINES
        if lane < len(drawing.lanes):
            return self._lane_strip(lane, width)
        legend = _legend(tuple(drawing.legend), width)
        legend_line = (
            lane - len(drawing.lanes) - (len(drawing.lanes) + _HEAD_LINES + len(legend) < self.content_size.height)
        )
        text = legend[legend_line] if 0 <= legend_line < len(legend) else ""
        return Strip([Segment(text, base + self._component_style("dim"))]).adjust_cell_length(width, base)

    def _marks_strip(self, marks: tuple[Mark, ...], title: str, width: int) -> Strip:
        line = [" "] * self._columns
        for mark in marks:
            for column, letter in enumerate(mark.text, mark.column):
                if 0 <= column < len(line):
                    line[column] = letter
        text = f"{title:>{_LABEL_WIDTH}} " + "".join(line)
        base = self.rich_style
        return Strip([Segment(text, base + self._component_style("head"))]).adjust_cell_length(width, base)

    def _lane_strip(self, lane: int, width: int) -> Strip:
        assert self._grid is not None
        assert self._drawing is not None
        base = self.rich_style
        name = self._drawing.lanes[lane][1]
        label = safe(name.removesuffix(LEADER))[: _LABEL_WIDTH - 2] + LEADER * name.endswith(LEADER)
        is_selected = self.has_focus and lane == self._lane
        label_style = Style(bold=True) if is_selected else self._component_style("dim")
        segments = [Segment(f"{label:>{_LABEL_WIDTH}} ", base + label_style)]
        for column, cell in enumerate(self._grid.cells[lane]):
            style = base + self._style(cell)
            if is_selected and column == self._column:
                style += self._component_style("cursor")
            segments.append(Segment(cell.glyph, style))
        return Strip(segments).adjust_cell_length(width, base)

    def _style(self, cell: Cell) -> Style:
        if cell.severity:
            return self._component_style(cell.severity)
        if cell.kind in ("member", "heartbeat", "open"):
            return self._component_style("member")
        return self._component_style("event") if cell.row is not None else self._component_style("dim")

    def _component_style(self, name: str) -> Style:
        return self.get_component_rich_style(f"line--{name}", partial=True)

    @property
    def cell(self) -> Cell | None:
        """The cell under the cursor."""
        if self._grid is None or not self._grid.cells:
            return None
        return self._grid.cells[self._lane][self._column]

    def _show_cursor(self) -> None:
        height = max(1, self.content_size.height - _HEAD_LINES)
        self._top = max(min(self._top, self._lane), self._lane - height + 1)
        self.refresh()
        if self._drawing is not None and (cell := self.cell) is not None:
            self.post_message(self.Pointed(self._drawing.lanes[self._lane][0], cell))

    def action_across(self, columns: int) -> None:
        """Move the cursor in time."""
        self._column = max(0, min(self._column + columns, self._columns - 1))
        self._show_cursor()

    def action_lane(self, lanes: int) -> None:
        """Move the cursor to another member."""
        if self._drawing is not None:
            self._lane = max(0, min(self._lane + lanes, len(self._drawing.lanes) - 1))
            self._show_cursor()

    def action_event(self, step: int) -> None:
        """Move to the next or previous event in this lane."""
        if self._grid is None or not self._grid.cells:
            return
        cells = self._grid.cells[self._lane]
        column = self._column + step
        while 0 <= column < len(cells):
            if cells[column].row is not None and cells[column].row != cells[column - 1 if column else 0].row:
                self._column = column
                self._show_cursor()
                return
            column += step

    def action_zoom(self, factor: float) -> None:
        """Zoom in or out around the cursor."""
        if self._window is not None:
            at = self._window.time(self._column, self._columns)
            self._show_window(self._window.zoomed(factor, at))

    def action_pan(self, share: float) -> None:
        """Scroll in time."""
        if self._window is not None:
            self._show_window(self._window.panned(share))

    def _show_window(self, window: Window) -> None:
        self._follows_latest = False
        self._window = window
        self._lay_out()
        self._show_cursor()

    def action_whole(self) -> None:
        """Show the whole time span, and follow the present."""
        self._follows_latest = True
        self._lay_out()
        self._show_cursor()

    def action_choose(self) -> None:
        """Show the frame under the cursor."""
        cell = self.cell
        if cell is not None and cell.row is not None:
            self.post_message(self.Chosen(cell.row))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked cell; a double click shows the frame."""
        offset = event.get_content_offset(self)
        lane = -1 if offset is None else self._top + offset.y - _HEAD_LINES
        if offset is None or self._drawing is None or not 0 <= lane < len(self._drawing.lanes):
            return
        self._lane = lane
        self._column = max(0, min(offset.x - _LABEL_WIDTH - 1, self._columns - 1))
        self._show_cursor()
        if event.chain > 1:
            self.action_choose()


@lru_cache(maxsize=4)
def _legend(entries: Sequence[str], width: int) -> Sequence[str]:
    """Return the legend of the characters, in as many lines as needed."""
    lines = [""]
    for entry in entries:
        if lines[-1] and len(lines[-1]) + 2 + len(entry) > width:
            lines.append("")
        lines[-1] += f"  {entry}" if lines[-1] else entry
    return lines
