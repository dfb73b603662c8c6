"""Findings by root cause, the most severe first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import ClassVar

from rich.markdown import Markdown
from rich.text import Text
from textual.binding import Binding, BindingType

from kproxy.browse.rows.index import time_of
from kproxy.browse.session import BrowseSession
from kproxy.filters.lexer import quoted
from kproxy.outputs import rulebook
from kproxy.outputs.text import STYLES
from kproxy.trace.formatting import safe
from kproxy.tui.dialogs import Reading
from kproxy.tui.overview import OverviewView
from kproxy.tui.styled_text import full_finding
from kproxy.tui.table import Cell, TableColumn
from kproxy.verdict.cause import Cause
from kproxy.verdict.causes import Causes

#: Maximum number of connections that are listed below a cause.
_MAX_CONNECTIONS = 12

#: Cells next to the text, for padding and a scroll bar.
_GUTTER = 4


class FindingView(OverviewView[Cause]):
    """The view of findings, by root cause."""

    title: ClassVar[str] = "Findings"
    about: ClassVar[str] = (
        "Each row is a root cause, listed once with a count, the most urgent first. Below are its details"
        " and its connections. Enter goes to the first frame, p shows the rule's page, s all its frames."
    )
    effect: ClassVar[str] = "counts matching rows only"
    columns: ClassVar[Sequence[TableColumn]] = (
        TableColumn("", 7),
        TableColumn("rule", 26, grow=1, drop=2),
        TableColumn("count", 7, right=True),
        TableColumn("conns", 6, right=True, drop=3),
        TableColumn("where", 18, drop=1),
        TableColumn("blame", 8, drop=4),
        TableColumn("what", 30, grow=6),
    )
    orders: ClassVar = (
        ("u", "urgency", lambda cause: -cause.rank),
        ("c", "count", lambda row: row.count),
        ("t", "time", lambda cause: -time_of(cause.first_ts)),
        ("r", "rule", lambda row: [-ord(letter) for letter in row.finding.code]),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "page", "the rule's page"),
        Binding("s", "frames", "all its frames"),
    ]

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "findings")

    @property
    def _findings(self) -> Causes:
        matching = self.session.matching
        return self.session.overviews.findings if matching is None else matching.findings

    def items(self) -> list[Cause]:
        """See `OverviewView`."""
        return self._findings.sorted_causes()

    def omitted_items(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self._findings.others, "findings of other causes"

    def key(self, item: Cause) -> tuple[int, str, str]:
        """See `OverviewView`."""
        return item.first_row, item.finding.code, item.finding.message

    def cells(self, item: Cause) -> Sequence[Cell]:
        """See `OverviewView`."""
        finding = item.finding
        return [
            [(finding.severity, finding.severity)],
            [(f"{finding.code} {finding.name}", "name")],
            [(f"{item.count:,}", "")],
            [(f"{len(item.connections):,}", "dim")],
            [(f"{item.place.api} v{item.place.api_version}" if item.place.api else "", "")],
            [(safe(finding.blame or ""), "dim")],
            [(safe(finding.message), "")],
        ]

    def item_text(self, item: Cause) -> Text:
        """See `OverviewView`."""
        text = full_finding(item.finding, self.app.size.width - _GUTTER)
        for sentence in item.sentences:
            text.append("also: ", "dim").append(f"{safe(sentence)}\n")
        for consequence in item.consequences:
            finding = consequence.finding
            text.append("so: ", "dim").append(safe(f"{finding.code} {finding.name}"), STYLES.get(finding.severity, ""))
            text.append(f"  {safe(finding.message)}\n")
        if item.explained_by is not None:
            finding = item.explained_by.finding
            text.append("follows from: ", "dim").append(safe(f"{finding.code} {finding.name}  {finding.message}\n"))
        text.append("seen: ", "dim").append(safe(item.seen), "bold" if item.lasts else "")
        text.append(f"; first {safe(item.first_ts)}, last {safe(item.last_ts)}", "dim")
        for connection_id, connection in islice(item.connections.items(), _MAX_CONNECTIONS):
            text.append(f"\n{connection.count:>7,}x  ", "bold").append(f"{safe(connection_id)}  ", "dim")
            text.append(f"{safe(connection.client or '')} -> {safe(connection.server or '')}")
        if (more_count := len(item.connections) - _MAX_CONNECTIONS) > 0:
            text.append(f"\nand {more_count:,} more connections", "dim")
        return text

    def on_resize(self) -> None:
        """Adapt the findings to the new width."""
        self.update_text()

    def open(self, item: Cause) -> None:
        """See `OverviewView`."""
        self.jump(item.first_row)

    def action_page(self) -> None:
        """Show the rule's page."""
        if (item := self.chosen) is not None:
            code = item.finding.code
            entry = rulebook.find(code)
            page = (
                Markdown(entry.page) if entry is not None else Text(f"this version of kproxy has no rule {safe(code)}")
            )
            self.app.push_screen(Reading(safe(f"{code} {item.finding.name}"), page))

    def action_frames(self) -> None:
        """Show all frames with findings of this rule."""
        if (item := self.chosen) is not None:
            self.narrow(f"finding={quoted(item.finding.code)}")
