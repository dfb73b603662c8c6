"""Topics: records written and read, and the lag of readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from kproxy.browse.facts import topics
from kproxy.browse.facts.texts import downsample
from kproxy.browse.overviews.topic import TopicSummary, Traffic
from kproxy.browse.session import BrowseSession
from kproxy.filters.lexer import quoted
from kproxy.trace.formatting import safe, size
from kproxy.tui.overview import OverviewView, count_cell, latency_cell, lines, names_and_counts, sparkline
from kproxy.tui.table import Cell, TableColumn

_BARS = 14
#: Maximum number of readers, of clients and of partitions that are shown for a topic.
_MAX_SHOWN = 30


class TopicView(OverviewView[TopicSummary]):
    """The view of topics."""

    title: ClassVar[str] = "Topics"
    about: ClassVar[str] = (
        "Each row is a topic: records written and read, per second and in total. Lag comes from Fetch responses: how"
        " many records are between a reader's position and the high watermark, for the slowest reader. Behind is how"
        " old the records are that it gets, by their timestamps; delivery is the last time from Produce to Fetch, if"
        " both passed here. Empty are fetches without records. Enter shows its frames."
    )
    columns: ClassVar[Sequence[TableColumn]] = (
        TableColumn("topic", 16, grow=2),
        TableColumn("written", 9, right=True),
        TableColumn("per s", 7, right=True, drop=4),
        TableColumn("", _BARS, drop=6),
        TableColumn("bytes", 8, right=True, drop=3),
        TableColumn("read", 9, right=True),
        TableColumn("per s", 7, right=True, drop=4),
        TableColumn("", _BARS, drop=7),
        TableColumn("bytes", 8, right=True, drop=3),
        TableColumn("empty", 7, right=True, drop=5),
        TableColumn("lag", 8, right=True),
        TableColumn("most lag", 8, right=True, drop=2),
        TableColumn("behind", 8, right=True, drop=8),
        TableColumn("delivery", 8, right=True, drop=9),
        TableColumn("errors", 12, grow=1, drop=1),
    )
    orders: ClassVar = (
        ("l", "lag", lambda row: row.lag or -1),
        ("t", "behind", lambda row: row.age_ms or -1),
        ("w", "written", lambda row: row.produced.records),
        ("r", "read", lambda row: row.fetched.records),
        ("b", "bytes", lambda row: row.produced.bytes + row.fetched.bytes),
        ("e", "errors", lambda row: sum(number for _, number in row.errors)),
        ("s", "last seen", lambda row: row.last_at),
    )

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "topics")

    def items(self) -> list[TopicSummary]:
        """See `OverviewView`."""
        return topics.rows_in_view(self.session, self.session.view)

    def omitted_items(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self.session.overviews.topics.evicted, "inactive topics"

    def key(self, item: TopicSummary) -> int:
        """Return the hash of the topic's name, or its first row while the name is unknown."""
        return item.first_row if item.topic is None else hash(item.topic)

    def cells(self, item: TopicSummary) -> Sequence[Cell]:
        """See `OverviewView`."""
        lag = item.lag
        return [
            [(safe(topics.name(item)), "topic")],
            *self._traffic_cells(item.produced),
            *self._traffic_cells(item.fetched),
            count_cell(item.fetched.empty, "dim"),
            [] if lag is None else [(f"{lag:,}", "warning" if lag else "")],
            [] if item.lag_max is None else [(f"{item.lag_max:,}", "dim")],
            [] if item.age_ms is None else [(topics.age_text(item.age_ms), "")],
            latency_cell(item.delivery_us),
            [(names_and_counts(item.errors), "error")],
        ]

    def _traffic_cells(self, traffic: Traffic) -> list[Cell]:
        series = traffic.minute if self.session.source.live else traffic.all_time
        return [
            count_cell(traffic.records),
            [(f"{traffic.records_rate:,.0f}" if traffic.records_rate else "", "")],
            [(sparkline(downsample(series, _BARS), _BARS), "bar")],
            [(size(traffic.bytes) if traffic.bytes else "", "")],
        ]

    def item_text(self, item: TopicSummary) -> Text:
        """See `OverviewView`."""
        return lines(*topics.facts(self.session, item, _MAX_SHOWN))

    def open(self, item: TopicSummary) -> None:
        """See `OverviewView`."""
        if item.topic is not None:
            self.narrow(f"topic={quoted(item.topic)}")
        else:
            self.narrow(f"topic_id={quoted(item.topic_id or '')}")
