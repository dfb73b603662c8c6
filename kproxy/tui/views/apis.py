"""APIs: frequency, latency, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from kproxy.browse.facts.texts import downsample
from kproxy.browse.overviews.apis import Apis, ApiUsage
from kproxy.browse.session import BrowseSession
from kproxy.filters.lexer import quoted
from kproxy.trace.formatting import duration, safe, size
from kproxy.tui.overview import (
    OverviewView,
    count_cell,
    latency_cell,
    lines,
    names_and_counts,
    severity_cell,
    sparkline,
)
from kproxy.tui.table import Cell, TableColumn

_BARS = 20


class ApiView(OverviewView[ApiUsage]):
    """The view of APIs."""

    title: ClassVar[str] = "APIs"
    about: ClassVar[str] = (
        "Each row is an API. The small bars are requests over the last minute, or over the whole of a finished trace."
        " Latency is the time from request to response; a Fetch waits for data by design."
        " In and out are the bytes of all requests and responses. Below are the API's versions"
        " and errors. Enter shows its frames."
    )
    effect: ClassVar[str] = "counts matching rows only"
    columns: ClassVar[Sequence[TableColumn]] = (
        TableColumn("API", 20, grow=1),
        TableColumn("asked", 9, right=True),
        TableColumn("per s", 7, right=True, drop=3),
        TableColumn("", _BARS, drop=4),
        TableColumn("p50", 8, right=True),
        TableColumn("p95", 8, right=True, drop=5),
        TableColumn("p99", 8, right=True),
        TableColumn("max", 8, right=True, drop=2),
        TableColumn("waiting", 7, right=True, drop=6),
        TableColumn("never", 6, right=True, drop=7),
        TableColumn("errors", 7, right=True),
        TableColumn("in", 8, right=True, drop=8),
        TableColumn("out", 8, right=True, drop=8),
        TableColumn("findings", 9, drop=1),
    )
    orders: ClassVar = (
        ("a", "asked", lambda row: row.requests),
        ("r", "rate", lambda row: row.rate),
        ("5", "p50", lambda row: row.p50_us or -1),
        ("9", "p99", lambda row: row.p99_us or -1),
        ("m", "max", lambda row: row.max_us or -1),
        ("e", "errors", lambda row: row.refusals),
        ("b", "bytes", lambda row: row.request_bytes + row.response_bytes),
        ("f", "findings", lambda row: row.findings[::-1]),
    )

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "apis")

    @property
    def _apis(self) -> Apis:
        matching = self.session.matching
        return self.session.overviews.apis if matching is None else matching.apis

    def items(self) -> list[ApiUsage]:
        """See `OverviewView`."""
        return self._apis.rows(self.session.live_now)

    def omitted_items(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self._apis.others, "frames of unknown versions"

    def key(self, item: ApiUsage) -> tuple[int | None, str | None]:
        """See `OverviewView`."""
        return item.api_key, item.api

    def cells(self, item: ApiUsage) -> Sequence[Cell]:
        """See `OverviewView`."""
        live = self.session.source.live
        return [
            [(safe(item.api or "?"), "name")],
            count_cell(item.requests),
            [(f"{item.rate:.1f}" if item.rate else "", "")],
            [(sparkline(downsample(item.minute if live else item.all_time, _BARS), _BARS), "bar")],
            latency_cell(item.p50_us),
            latency_cell(item.p95_us),
            latency_cell(item.p99_us),
            latency_cell(item.max_us),
            count_cell(item.in_flight, "warning"),
            count_cell(item.unanswered, "error"),
            count_cell(item.refusals, "error"),
            [(size(item.request_bytes), "")],
            [(size(item.response_bytes), "")],
            severity_cell(item.findings),
        ]

    def item_text(self, item: ApiUsage) -> Text:
        """See `OverviewView`."""
        text = lines(("errors", names_and_counts(item.errors)))
        for version in item.versions:
            text.append(f"\nv{version.version:<4}" if version.version is not None else "\n?    ", "bold")
            text.append(
                f" {version.requests:>9,} requests  p50 {duration(version.p50_us):>8}  p99 "
                f"{duration(version.p99_us):>8}"
            )
            text.append(f"  {names_and_counts(version.errors)}", "red")
        if text.plain.startswith("\n"):
            text = text[1:]
        return text

    def open(self, item: ApiUsage) -> None:
        """See `OverviewView`."""
        if item.api is not None:
            self.narrow(f"api={quoted(item.api)}")
        elif item.slowest_row is not None:
            self.jump(item.slowest_row)
        else:
            self.jump(item.last_row)
