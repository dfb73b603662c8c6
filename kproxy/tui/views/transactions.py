"""Transactions: which producers have one open, on which partitions, and when each was open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll

from kproxy.browse.facts import transactions
from kproxy.browse.session import BrowseSession
from kproxy.filters.lexer import quoted
from kproxy.transactions import TransactionRow
from kproxy.transactions.cells import COLUMNS, cells
from kproxy.transactions.timeline import drawing
from kproxy.tui.overview import OverviewView, lines
from kproxy.tui.table import Cell, TableColumn
from kproxy.tui.timeline import Timeline

#: The width of each column, and when it is dropped.
_COLUMNS_BY_TITLE: Mapping[str, TableColumn] = {
    column.title: column
    for column in (
        TableColumn("transactional id", 16, grow=2),
        TableColumn("producer", 12, right=True, drop=4),
        TableColumn("client", 12, grow=1, drop=5),
        TableColumn("state", 14),
        TableColumn("open", 8, right=True),
        TableColumn("timeout", 8, right=True, drop=6),
        TableColumn("partitions", 10, right=True, drop=3),
        TableColumn("commits", 8, right=True),
        TableColumn("aborts", 7, right=True),
        TableColumn("fenced", 6, right=True, drop=2),
        TableColumn("longest", 8, right=True, drop=1),
        TableColumn("what is wrong", 16, grow=4),
    )
}


class TransactionsView(OverviewView[TransactionRow]):
    """The view of transactional ids."""

    title: ClassVar[str] = "Transactions"
    short_title: ClassVar[str] = "Txns"
    about: ClassVar[str] = (
        "Each row is a transactional id, or a producer whose batch holds a partition but whose requests were not seen."
        " Below, each is a lane and time runs to the right: B begins, ━ is open, C committed, A aborted, F aborted by"
        " the coordinator or because another producer took over, ░ holds the last stable offset of a partition, so"
        " that consumers of committed records wait. Enter shows its frames. Tab moves to the timeline, whose keys are"
        " those of the timeline of a group."
    )
    columns: ClassVar[Sequence[TableColumn]] = tuple(_COLUMNS_BY_TITLE[name] for name in COLUMNS)
    orders: ClassVar = (
        ("o", "open longest", lambda row: (len(row.held), row.begun_at is not None, -(row.begun_at or 0),
                                            row.last_at)),
        ("a", "aborts", lambda row: (row.aborts + row.fenced, row.commits)),
        ("c", "commits", lambda row: row.commits),
        ("l", "last seen", lambda row: row.last_at),
    )  # fmt: skip
    DEFAULT_CSS = """
    TransactionsView > Table { height: auto; max-height: 40%; }
    """

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "transactions")
        self._timeline = Timeline()

    def compose(self) -> ComposeResult:
        """Create the table of transactional ids, the timeline, and the text."""
        yield self.table
        yield self._timeline
        yield VerticalScroll(self._text_pane, classes="about")

    def items(self) -> list[TransactionRow]:
        """See `OverviewView`."""
        return transactions.rows_in_view(self.session, self.session.view)

    def omitted_items(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self.session.overviews.transactions.evicted, "inactive transactional ids"

    def key(self, item: TransactionRow) -> str:
        """See `OverviewView`."""
        return item.key

    def cells(self, item: TransactionRow) -> Sequence[Cell]:
        """See `OverviewView`."""
        return [[cell] for cell in cells(item, self.session.now)]

    def update_text(self) -> None:
        """Show the timeline, and more about the transactional id under the cursor."""
        item, overview, now = self.chosen, self.session.overviews.transactions, self.session.now
        self._timeline.show(None if item is None else drawing(self.items(), item, overview.spans, now))
        self.show_text(Text() if item is None else self.item_text(item))

    def item_text(self, item: TransactionRow) -> Text:
        """See `OverviewView`."""
        return lines(*transactions.facts(self.session, item))

    def open(self, item: TransactionRow) -> None:
        """See `OverviewView`."""
        if item.transactional_id is None:
            self.jump(item.row)
        else:
            self.narrow(f"transaction={quoted(item.transactional_id)}")

    @on(Timeline.Chosen)
    def show_frame(self, event: Timeline.Chosen) -> None:
        """Show the frame under the cursor of the timeline."""
        self.jump(event.row)
