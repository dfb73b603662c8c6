"""The table of APIs."""

from __future__ import annotations

from dissectors.refusals import Nature, nature_of
from kproxy.browse.overviews.apis import ApiUsage
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.table import (
    ColumnKind,
    OverviewColumn,
    OverviewRow,
    OverviewTable,
    severities,
    spark,
)
from kproxy.filters.lexer import quoted
from kproxy.trace.formatting import duration

_COLUMNS = (
    OverviewColumn("API", style="name"),
    OverviewColumn("requests", ColumnKind.COUNT),
    OverviewColumn("per s", ColumnKind.RATE),
    OverviewColumn("over time", ColumnKind.SPARK),
    OverviewColumn("p50", ColumnKind.DURATION),
    OverviewColumn("p95", ColumnKind.DURATION),
    OverviewColumn("p99", ColumnKind.DURATION),
    OverviewColumn("max", ColumnKind.DURATION),
    OverviewColumn("waiting", ColumnKind.COUNT, "warning"),
    OverviewColumn("no response", ColumnKind.COUNT, "error"),
    OverviewColumn("errors", ColumnKind.COUNT, "error"),
    OverviewColumn("in", ColumnKind.BYTES),
    OverviewColumn("out", ColumnKind.BYTES),
    OverviewColumn("findings", ColumnKind.FINDINGS),
    OverviewColumn("which errors", style="error"),
)


def apis(session: BrowseSession, view: SessionView) -> OverviewTable:
    """Return the table of APIs, counted in the rows of a view."""
    matching = view.matching
    overview = session.overviews.apis if matching is None else matching.apis
    about = "Latency is the time from request to response; a Fetch waits for data by design."
    omitted_text = f"{overview.others:,} frames of unknown versions are not listed" if overview.others else ""
    rows = [_row(row, live=session.source.live) for row in overview.rows(session.live_now)]
    return OverviewTable("APIs", about, _COLUMNS, rows, "-requests", omitted_text)


def _describe_errors(item: ApiUsage) -> str:
    """Return the errors of an API with their counts; those that are routine, or pass with retries, are marked."""
    return ", ".join(f"{name} {count:,}x{_remark(item.api, name)}" for name, count in item.errors)


def _remark(api: str | None, name: str) -> str:
    nature = nature_of(api or "", name)
    return "" if nature is Nature.FINAL else f" ({nature})"


def _are_errors_routine(item: ApiUsage) -> bool:
    return bool(item.errors) and all(nature_of(item.api or "", name) is Nature.ROUTINE for name, _ in item.errors)


def _row(item: ApiUsage, *, live: bool) -> OverviewRow:
    values = [
        item.api or "?",
        item.requests,
        item.rate,
        spark(item.minute if live else item.all_time),
        item.p50_us,
        item.p95_us,
        item.p99_us,
        item.max_us,
        item.in_flight,
        item.unanswered,
        item.refusals,
        item.request_bytes,
        item.response_bytes,
        severities(item.findings),
        _describe_errors(item),
    ]
    facts: list[tuple[str, str]] = []
    for version in item.versions:
        text = f"{version.requests:,} requests, p50 {duration(version.p50_us)}, p99 {duration(version.p99_us)}"
        if version.errors:
            text += f"; {_describe_errors(version)}"
        facts.append((f"v{version.version}" if version.version is not None else "?", text))
    marks = [("slowest", item.slowest_row)] if item.slowest_row is not None else []
    styles = dict.fromkeys(("errors", "which errors"), "dim") if _are_errors_routine(item) else {}
    return OverviewRow(
        item.api or "?", values, f"api={quoted(item.api)}" if item.api else None, item.last_row, facts,
        [*marks, ("last", item.last_row)], styles,
    )  # fmt: skip
