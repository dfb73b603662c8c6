"""Groups: a timeline of each group's members, and why a group is stalled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from dissectors.groups import GroupStatus, Protocol, Stall
from kproxy.browse.facts import groups
from kproxy.browse.overviews.topic import GroupLag
from kproxy.browse.session import BrowseSession
from kproxy.filters.lexer import quoted
from kproxy.groups import GroupRow, GroupView
from kproxy.groups.timeline import group_drawing
from kproxy.trace.formatting import duration, safe
from kproxy.trace.time_display import TimeDisplay
from kproxy.tui.overview import OverviewView, count_cell, lines
from kproxy.tui.styled_text import styled
from kproxy.tui.table import Cell, TableColumn
from kproxy.tui.timeline import Timeline

_STATE_STYLES = {GroupStatus.STABLE: "response", GroupStatus.PREPARING: "warning", GroupStatus.COMPLETING: "warning"}
#: Maximum number of stalls that are shown below the timeline.
_MAX_STALLS = 20
#: Maximum number of generations, the newest, whose causes are shown.
_MAX_GENERATIONS = 8


class GroupsView(OverviewView[GroupRow]):
    """The view of groups."""

    title: ClassVar[str] = "Groups"
    about: ClassVar[str] = (
        "Each row is a group. Below, each member is a lane and time runs to the right: J joins, S requests "
        "its assignment,"
        " c commits, ▒ waits for a response, ─ is a member, ░ blocks the others. The sentences at the bottom explain"
        " why a group is stalled, why its newest generations began, and which records each member of a share group"
        " holds, how often they were delivered, and how long their lock lasts. Tab moves to the timeline: h l move in"
        " time, j k between members, H L to the next event, + - zoom, < > scroll, 0 shows everything, enter shows the"
        " frame."
    )
    columns: ClassVar[Sequence[TableColumn]] = (
        TableColumn("group", 14, grow=2),
        TableColumn("kind", 9, drop=5),
        TableColumn("state", 20),
        TableColumn("gen", 5, right=True),
        TableColumn("members", 7, right=True),
        TableColumn("rebalances", 10, right=True, drop=2),
        TableColumn("longest", 8, right=True, drop=4),
        TableColumn("commits", 8, right=True, drop=3),
        TableColumn("lag", 8, right=True, drop=6),
        TableColumn("why it is stalled", 20, grow=5, drop=1),
    )
    orders: ClassVar = (
        ("s", "stalls", lambda row: (row.stalls, row.ended_stalls, row.last_at)),
        ("r", "rebalances", lambda row: row.rebalances),
        ("m", "members", lambda row: row.members),
        ("l", "last seen", lambda row: row.last_at),
    )
    DEFAULT_CSS = """
    GroupsView > Table { height: auto; max-height: 30%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "stall", "frame of the stall")]

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "groups")
        self._timeline = Timeline()
        self._lags: dict[str, GroupLag] = {}

    def compose(self) -> ComposeResult:
        """Create the table of groups, the timeline, and the text."""
        yield self.table
        yield self._timeline
        yield VerticalScroll(self._text_pane, classes="about")

    def items(self) -> list[GroupRow]:
        """See `OverviewView`."""
        self._lags = self.session.overviews.topics.group_lags()
        return groups.rows_in_view(self.session, self.session.view)

    def omitted_items(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self.session.overviews.groups.evicted, "inactive groups"

    def key(self, item: GroupRow) -> str:
        """See `OverviewView`."""
        return item.group

    def cells(self, item: GroupRow) -> Sequence[Cell]:
        """See `OverviewView`."""
        worst = item.worst
        return [
            [(safe(item.group) or "(empty)", "name")],
            [(item.protocol.value, "dim")],
            [(item.state.value, _STATE_STYLES.get(item.state, "dim"))],
            [(str(item.generation) if item.generation >= 0 else "", "")],
            count_cell(item.members),
            count_cell(item.rebalances),
            [(duration((item.longest_rebalance_ns or 0) // 1000) if item.longest_rebalance_ns else "", "")],
            count_cell(item.commits),
            self._lag_cell(item),
            _stall_cell(worst) if worst is not None else [],
        ]

    def _lag_cell(self, item: GroupRow) -> Cell:
        """Return the records that the group has not fetched, as Fetch responses show them."""
        lag = self._lags.get(item.group)
        return [] if lag is None else [(f"{lag.lag:,}", "warning" if lag.lag else "dim")]

    def update_text(self) -> None:
        """Show the timeline of the group under the cursor, and its stalls."""
        item = self.chosen
        view = None if item is None else self.session.overviews.groups.view(item.group, self.session.now)
        self._timeline.show(None if view is None else group_drawing(view))
        text = Text()
        if view is not None:
            fact_lines = lines(*groups.facts(self.session, view))
            text.append_text(_group_text(view, self.session.clock)).append_text(fact_lines).append(
                "\n" * bool(fact_lines)
            )
            text.append_text(self._held_records_text(view))
        self.show_text(text)

    def _held_records_text(self, view: GroupView) -> Text:
        """Return the records that each member of a share group holds."""
        text = Text()
        for member, held_text, ranges in groups.held_records(self.session, view):
            text.append(f"{safe(member)} {held_text}", "bold").append(f"  {safe(ranges)}\n")
        if acknowledged := groups.acknowledged_records(self.session, view):
            text.append("records acknowledged  ", "dim").append(acknowledged + "\n")
        return text

    def item_text(self, item: GroupRow) -> Text:
        """See `OverviewView`; `update_text` shows more."""
        return Text(safe(item.group))

    def open(self, item: GroupRow) -> None:
        """See `OverviewView`."""
        self.narrow(f"group={quoted(item.group)}")

    def action_stall(self) -> None:
        """Show the frame where the most severe stall began."""
        if (item := self.chosen) is not None and item.worst is not None:
            self.jump(item.worst.row)

    @on(Timeline.Chosen)
    def show_frame(self, event: Timeline.Chosen) -> None:
        """Show the frame under the cursor of the timeline."""
        self.jump(event.row)


def _group_text(view: GroupView, clock: TimeDisplay) -> Text:
    text = Text()
    for stall in view.stalls[:_MAX_STALLS]:
        text.append_text(styled(_stall_text(stall, clock))).append("\n")
    for boundary in reversed(view.boundaries[-_MAX_GENERATIONS:]):
        if boundary.cause is not None:
            unit = "generation" if view.row.protocol is Protocol.CLASSIC else "epoch"
            text.append(f"{unit} {boundary.generation}", "bold").append(f"  {clock.time(boundary.at)}  ")
            text.append(safe(boundary.cause.text) + "\n")
    return text


def _stall_cell(stall: Stall) -> Cell:
    return [(stall.text, stall.severity)] if stall.until is None else [("was: " + stall.text, "")]


def _stall_text(stall: Stall, clock: TimeDisplay) -> Cell:
    period = "since " + clock.time(stall.since)
    if stall.until is not None:
        period = f"{clock.time(stall.since)} for {duration((stall.until - stall.since) // 1000)}"
    return [(f"{period}  ", "dim"), *_stall_cell(stall), (f"  {stall.hint}", "dim")]
