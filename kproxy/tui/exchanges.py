"""The Frames view: root causes, the list of exchanges, and the details of the one under the cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widget import Widget

from kproxy.browse.rows.exchange import Exchange
from kproxy.browse.rows.visible_rows import Order
from kproxy.browse.session import BrowseSession
from kproxy.control.protocol import LateResponse
from kproxy.filters import Filter, parse
from kproxy.tui import export
from kproxy.tui.causes_panel import CausesPanel
from kproxy.tui.detail import DetailPane
from kproxy.tui.dialogs import Menu, Prompt
from kproxy.tui.exchange_columns import COLUMNS, ExchangeRows, Times
from kproxy.tui.filter_input import FilterBar
from kproxy.tui.filter_status import empty_table_message
from kproxy.tui.table import Table
from kproxy.tui.view import View

#: Seconds that the cursor must rest on an exchange before its details are read.
_CURSOR_REST_S = 0.04
#: Seconds of sorting before keys are handled.
_SLICE_S = 0.008

_ORDERS = tuple(
    (
        order.value[0].lower() if order is not Order.CLIENT else "n",
        order.value,
        "request and response together" if order is Order.SIZE else "",
    )
    for order in Order
)


_TITLES = {
    "time": Order.TIME, "conn": Order.CONNECTION, "client": Order.CLIENT, "API": Order.API, "req size": Order.SIZE,
    "resp size": Order.SIZE, "latency": Order.LATENCY, "error / finding": Order.SEVERITY,
}  # fmt: skip
#: The sort order of each column that has one, by column index.
_ORDER_OF_COLUMN = {number: _TITLES[column.title] for number, column in enumerate(COLUMNS) if column.title in _TITLES}


@dataclass(frozen=True, slots=True)
class _SavedState:
    """The state before a jump; `view` is the view that caused it, None if it was this one."""

    filter: Filter | None
    only_findings: bool
    row: int | None
    view: View | None


class ExchangeView(View):
    """The list of frames, with the root causes above and the details below."""

    title: ClassVar[str] = "Frames"
    about: ClassVar[str] = (
        "Problems are listed on top, the worst first (! goes there). Each row is a request with its response. "
        "E, W and i on"
        " the left are findings (error, warning, info); a latency that counts up is a request still waiting for its"
        " response. Req size and resp size are the bytes of each frame."
        " Below is the exchange under the cursor: its problems and how to fix them, its fields, its"
        " bytes. The field under the cursor is highlighted in the bytes, and the byte under the cursor in the "
        "fields (tab"
        " switches between them). Enter shows it full-screen."
    )
    DEFAULT_CSS = """
    ExchangeView { layout: vertical; }
    ExchangeView > #exchanges { height: 1fr; min-height: 4; }
    ExchangeView.whole > #exchanges, ExchangeView.whole > CausesPanel { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "app.filter", "filter", priority=True),  # handled first: the next key belongs to the filter
        Binding("exclamation_mark", "worst", "worst finding", show=False),
        Binding("n", "finding(1)", "next finding"),
        Binding("N", "finding(-1)", "previous finding", show=False),
        Binding("right_square_bracket", "step(1)", "next exchange", show=False),
        Binding("left_square_bracket", "step(-1)", "previous exchange", show=False),
        Binding("z", "only_findings", "only findings"),
        Binding("F", "follow", "follow"),
        Binding("r", "other_side", "other side"),
        Binding("o", "sort", "sort"),
        Binding("t", "cycle_time_format", "times: UTC, local, since start, delta", show=False),
        Binding("y", "copy", "copy"),
        Binding("w", "save", "save"),
        Binding("e", "edit", "editor"),
        Binding("m", "mark", "mark or unmark", show=False),
        Binding("semicolon", "note", "write a note", show=False),
        Binding("apostrophe", "marked", "next mark", show=False),
        Binding("escape", "back", "back", show=False),
    ]

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(id="frames")
        self._session = session
        self._causes = CausesPanel(session)
        self._rows = ExchangeRows(session)
        self._columns = self._rows.columns
        self.table = Table(self._rows, empty_message=lambda: empty_table_message(session, "rows"), id="exchanges")
        self.table.set_reactive(Table.follow, session.source.is_stream)
        self._history: list[_SavedState] = []
        self.detail = DetailPane(session.clock)
        self._filter = FilterBar()
        self._displayed: tuple[int, int, LateResponse | None] | None = None
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Create the causes, the list, the details below it, and the filter input."""
        yield self._causes
        yield self.table
        yield self.detail
        yield self._filter

    def update(self) -> bool:
        """See `View`."""
        if self._columns is not self._rows.columns:
            self._columns = self._rows.columns
            self.table.measure_columns()
        self.table.update()
        if not self._session.visible.is_behind:
            self.table.move_to_row_when_loaded(None)
        self._show_details()
        return self._causes.refresh_causes()

    @property
    def first(self) -> Widget:
        """See `View`."""
        return self.detail.first if self.has_class("whole") else self.table

    @property
    def row(self) -> int | None:
        """The row of the exchange under the cursor."""
        key = self.table.key
        return key if isinstance(key, int) else None

    def _exchange(self) -> Exchange | None:
        exchange = self._session.exchange(self.row) if self.row is not None else None
        if exchange is None:
            self.app.bell()
        return exchange

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Stop following when the details get the focus."""
        if self.detail in event.widget.ancestors_with_self:
            self.table.follow = False

    @on(Table.Moved)
    def show_details_later(self) -> None:
        """Show the exchange under the cursor once the cursor rests."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_CURSOR_REST_S, self._show_details)

    def _show_details(self) -> None:
        """Show the exchange if it is a different one, got its response, or has a new report about why it waits."""
        exchange = self._session.exchange(self.row) if self.row is not None else None
        displayed = None if exchange is None else (exchange.row, exchange.state, exchange.late)
        if displayed != self._displayed:
            self._displayed = displayed
            self.detail.show(exchange, "" if exchange is None else self._session.note(exchange.row).text)

    @on(Table.Chosen)
    def open_fullscreen(self) -> None:
        """Show the details full-screen."""
        self.table.follow = False
        self.add_class("whole")
        self.detail.set_fullscreen(fullscreen=True)
        self._show_details()
        self.screen.set_focus(self.first)

    def action_back(self) -> None:
        """Return to the list; from there to the previous state; then clear the filter."""
        if self.has_class("whole") or not self.table.has_focus:
            self.remove_class("whole")
            self.detail.set_fullscreen(fullscreen=False)
        elif self._history:
            state = self._history.pop()
            self._narrow(state.filter, only_findings=state.only_findings, row=state.row)
            if state.view is not None:
                self.post_message(self.Return(state.view))
                return
        elif self._session.visible.is_narrowed:
            self.narrow(None)
        self.table.focus()

    def action_filter(self) -> None:
        """Edit the filter."""
        self._filter.open(str(self._session.visible.filter or ""))

    @on(FilterBar.Chosen)
    def apply_filter(self, event: FilterBar.Chosen) -> None:
        """Apply the filter."""
        self._history.clear()
        self.narrow(event.filter, only_findings=self._session.visible.only_findings)
        self.table.focus()

    @on(FilterBar.Cancelled)
    def leave_filter(self) -> None:
        """Return to the list."""
        self.table.focus()

    def narrow(self, row_filter: Filter | None, *, only_findings: bool = False) -> None:
        """Show the rows that match a filter; None shows all. The cursor stays on its row if that matches."""
        self._narrow(row_filter, only_findings=only_findings, row=self.row)

    def _narrow(self, row_filter: Filter | None, *, only_findings: bool, row: int | None) -> None:
        visible = self._session.visible
        visible.choose(row_filter, only_findings=only_findings)
        visible.work(_SLICE_S)  # a short trace shows its matches immediately
        self.table.move_to_row_when_loaded(row)
        self.update()

    def clear_filter(self) -> None:
        """Show everything."""
        self._history.clear()
        self.narrow(None)

    def narrow_more(self, view: View, text: str) -> None:
        """Filter the visible rows further on behalf of `view`; going back returns to that view."""
        visible = self._session.visible
        self._save_state(view)
        combined = text if visible.filter is None else f"({visible.filter}) and ({text})"
        self.narrow(parse(combined), only_findings=visible.only_findings)

    def jump_from(self, view: View, row: int) -> None:
        """Move the cursor to an exchange on behalf of `view`; going back returns to that view."""
        self._save_state(view)
        self._go_to(row)

    def _save_state(self, view: View | None) -> None:
        visible = self._session.visible
        self._history.append(_SavedState(visible.filter, visible.only_findings, self.row, view))

    def action_only_findings(self) -> None:
        """Show only rows with findings, or all rows again."""
        visible = self._session.visible
        self.narrow(visible.filter, only_findings=not visible.only_findings)

    def action_follow(self) -> None:
        """Follow the newest exchange, or stop following."""
        self.table.follow = not self.table.follow

    def action_other_side(self) -> None:
        """Switch between request and response."""
        self.detail.toggle_side()

    def action_step(self, step: int) -> None:
        """Go to the next or previous exchange, even in full-screen mode."""
        self.table.go(self.table.cursor + step)

    def action_worst(self) -> None:
        """Go to the most urgent cause."""
        if causes := self._session.overviews.findings.sorted_causes():
            self.jump(causes[0].first_row)
        else:
            self.app.bell()

    @on(CausesPanel.Chosen)
    def go_to_cause(self, event: CausesPanel.Chosen) -> None:
        """Go to the first exchange of a cause."""
        self.jump(event.row)

    def action_finding(self, step: int) -> None:
        """Go to the next or previous exchange with a finding."""
        index = self._session.index
        self._seek(step, lambda row: bool(index.severity[row - index.first]))

    def action_marked(self) -> None:
        """Go to the next exchange with a mark or a note."""
        notes = self._session.notes
        self._seek(1, lambda row: row in notes and (notes[row].marked or bool(notes[row].text)))

    def _seek(self, step: int, matches: Callable[[int], bool]) -> None:
        visible = self._session.visible
        position = self.table.cursor + step
        while 0 <= position < len(visible):
            if matches(visible[position]):
                self.table.go(position)
                return
            position += step
        self.app.bell()

    def jump(self, row: int) -> None:
        """Move the cursor to an exchange; clear a filter that hides it."""
        if not self._session.visible.has(row):
            self._save_state(None)
        self._go_to(row)

    def _go_to(self, row: int) -> None:
        visible = self._session.visible
        if not visible.has(row):
            self.narrow(None)
        self.table.follow = False
        self.table.go(visible.position(row))

    def action_mark(self) -> None:
        """Mark or unmark the exchange."""
        if self.row is not None:
            note = self._session.note(self.row)
            self._session.annotate(self.row, replace(note, marked=not note.marked))
            self.table.refresh()

    @work
    async def action_note(self) -> None:
        """Edit the note on the exchange."""
        if (row := self.row) is None:
            return
        note = self._session.note(row)
        text = await self.app.push_screen_wait(Prompt("note", note.text))
        if text is not None:
            self._session.annotate(row, replace(note, text=text.strip()))
            self.table.refresh()
            self._displayed = None
            self._show_details()

    @work
    async def action_sort(self) -> None:
        """Choose the sort order; choosing it again reverses it."""
        name = await self.app.push_screen_wait(Menu("sort by", _ORDERS))
        if name is not None:
            await self._sort(Order(name))

    @on(Table.HeadClicked)
    @work(exclusive=True)
    async def sort_by_column(self, event: Table.HeadClicked) -> None:
        """Sort by the clicked column; clicking it again reverses the order."""
        event.stop()
        if (order := _ORDER_OF_COLUMN.get(event.column)) is None:
            self.app.bell()
        else:
            await self._sort(order)

    async def _sort(self, order: Order) -> None:
        visible = self._session.visible
        visible.sort(order, reverse=order is visible.order and not visible.reverse)
        while visible.is_unsorted:
            visible.work(_SLICE_S)
            await asyncio.sleep(0)
        column = next((number for number, candidate in _ORDER_OF_COLUMN.items() if candidate is order), None)
        is_ascending = order in (Order.TIME, Order.API, Order.CLIENT, Order.CONNECTION)
        self.table.mark_order(column, descending=is_ascending == visible.reverse)
        self.table.update()
        self.table.go(0)

    def action_cycle_time_format(self) -> None:
        """Show times in the next format: UTC, local, since the first row, since the row above."""
        clock, rows = self._session.clock, self._rows
        if rows.times is Times.CLOCK and not clock.is_local:
            clock.is_local = True
        elif rows.times is Times.DELTA:
            clock.is_local, rows.times = False, Times.CLOCK
        else:
            rows.times = Times.SINCE_START if rows.times is Times.CLOCK else Times.DELTA
        self._displayed = None
        self.update()

    @work
    async def action_copy(self) -> None:
        """Copy the exchange."""
        if (exchange := self._exchange()) is not None:
            await export.copy(self.app, exchange, request=self.detail.active == "request")

    @work
    async def action_save(self) -> None:
        """Save the visible rows as a trace."""
        await export.save_visible(self.app, self._session)

    def action_edit(self) -> None:
        """Open the exchange in an editor."""
        if (exchange := self._exchange()) is not None:
            export.edit(self.app, exchange)
