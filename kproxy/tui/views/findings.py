"""Findings: each cause once, the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.markdown import Markdown
from rich.text import Text
from textual.binding import Binding, BindingType

from kproxy.browse.overviews.causes import Cause, urgency
from kproxy.browse.session import Session
from kproxy.outputs import rulebook
from kproxy.outputs.findings import full_rows
from kproxy.outputs.text import safe
from kproxy.trace.clock import timestamp
from kproxy.tui.asking import Reading
from kproxy.tui.overview import OverviewView
from kproxy.tui.paint import painted
from kproxy.tui.table import Cell, Column

#: Connections that are listed below a cause.
_MOST_PLACES = 12


class FindingView(OverviewView[Cause]):
    """See the module."""

    title: ClassVar[str] = "Findings"
    about: ClassVar[str] = (
        "A row is a cause, told once however often it was seen, the most urgent first. Below is all there is to say of"
        " it and on which connections it was. Enter goes to the first frame, p shows the rule's page, s all its frames."
    )
    columns: ClassVar[Sequence[Column]] = (
        Column("", 7),
        Column("rule", 26, drop=2),
        Column("count", 7, right=True),
        Column("conns", 6, right=True, drop=3),
        Column("where", 18, drop=1),
        Column("blame", 8, drop=4),
        Column("what", 30, grow=1),
    )
    orders: ClassVar = (
        ("u", "urgency", lambda each: tuple(-part if isinstance(part, int) else part for part in urgency(each)[:4])),
        ("c", "count", lambda each: each.count),
        ("t", "time", lambda each: -each.first_at),
        ("r", "rule", lambda each: [-ord(letter) for letter in each.finding.code]),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "page", "the rule's page"),
        Binding("s", "frames", "all its frames"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session, "findings")

    def things(self) -> list[Cause]:
        """See `OverviewView`."""
        return self.session.overviews.findings.causes()

    def key(self, thing: Cause) -> tuple[int, str, str]:
        """See `OverviewView`."""
        return thing.first_row, thing.finding.code, thing.finding.message

    def cells(self, thing: Cause) -> Sequence[Cell]:
        """See `OverviewView`."""
        finding = thing.finding
        return [
            [(finding.severity, finding.severity)],
            [(f"{finding.code} {finding.name}", "name")],
            [(f"{thing.count:,}", "")],
            [(f"{len(thing.places):,}", "dim")],
            [(f"{thing.api} v{thing.api_version}" if thing.api else "", "")],
            [(safe(finding.blame or ""), "dim")],
            [(safe(finding.message), "")],
        ]

    def told(self, thing: Cause) -> Text:
        """See `OverviewView`."""
        text = Text()
        for row in full_rows(thing.finding):
            text.append_text(painted(row)).append("\n")
        for sentence in thing.sentences:
            text.append("also: ", "dim").append(f"{safe(sentence)}\n")
        text.append(f"first {timestamp(thing.first_at)}, last {timestamp(thing.last_at)}", "dim")
        for place in thing.places[:_MOST_PLACES]:
            text.append(f"\n{place.count:>7,}x  ", "bold").append(f"{safe(place.connection_id)}  ", "dim")
            text.append(f"{safe(place.client or '')} -> {safe(place.server or '')}")
        if (more := len(thing.places) - _MOST_PLACES) > 0:
            text.append(f"\nand {more:,} more connections", "dim")
        return text

    def open(self, thing: Cause) -> None:
        """See `OverviewView`."""
        self.jump(thing.first_row)

    def action_page(self) -> None:
        """Show the rule's page."""
        if (thing := self.chosen) is not None:
            code = thing.finding.code
            entry = rulebook.find(code)
            page = Markdown(entry.page) if entry is not None else Text(f"no rule of this kproxy has the code {code}")
            self.app.push_screen(Reading(f"{code} {thing.finding.name}", page))

    def action_frames(self) -> None:
        """Show all frames with findings of this rule."""
        if (thing := self.chosen) is not None:
            self.narrow(f"finding={thing.finding.code}")
