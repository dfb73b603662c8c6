"""The timeline of transactions, with a lane per transactional id that shows when its transactions were open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from kproxy.groups.timeline import CellRow, Drawing, Grid, Mark, Window, round_times
from kproxy.transactions.rows import LONG_HOLD_NS, TransactionOutcome, TransactionRow, TransactionSpan

#: Maximum number of lanes, those of the first rows in the table.
MAX_LANES: Final = 100

_BEGIN: Final = "begin"
_HELD: Final = "held"
_NOTHING: Final = ""

GLYPHS: Final[Mapping[str, str]] = {
    _NOTHING: " ",
    TransactionOutcome.OPEN: "━",
    _HELD: "░",
    _BEGIN: "B",
    TransactionOutcome.UNKNOWN: "?",
    TransactionOutcome.COMMITTED: "C",
    TransactionOutcome.ABORTED: "A",
    TransactionOutcome.FENCED: "F",
}
_PRIORITY: Final = {kind: priority for priority, kind in enumerate(GLYPHS)}
_MEANINGS: Final = {
    _BEGIN: "begins",
    TransactionOutcome.OPEN: "open",
    TransactionOutcome.COMMITTED: "committed",
    TransactionOutcome.ABORTED: "aborted",
    TransactionOutcome.FENCED: "aborted by the coordinator, or for another producer",
    _HELD: "holds a partition",
    TransactionOutcome.UNKNOWN: "bytes are missing",
}
LEGEND: Final = tuple(f"{GLYPHS[kind]} {meaning}" for kind, meaning in _MEANINGS.items())

Spans = Callable[[str], Sequence[TransactionSpan]]


def drawing(rows: Sequence[TransactionRow], selected: TransactionRow, spans: Spans, now: int) -> Drawing:
    """Return the timeline with the selected transactional id at the top and the others below, in the table's order.

    It begins where the first of them was seen, whichever is selected. `spans` returns the transactions for a row's key.
    """
    visible_rows = [selected, *(row for row in rows if row.key != selected.key)][:MAX_LANES]
    lanes = [(row.key, row.key) for row in visible_rows]
    return Drawing(
        "transactions",
        min(row.first_at for row in visible_rows),
        now,
        lanes,
        "",
        LEGEND,
        partial(lay_out, visible_rows, spans, now),
    )


def lay_out(rows: Sequence[TransactionRow], spans: Spans, now: int, window: Window, columns: int) -> Grid:
    """Return the rows as lanes of `columns` cells. Open transactions extend to `now`."""
    now_column = window.column(now, columns)
    return Grid(
        tuple(_lane_row(row, spans(row.key), now, window, columns).cells() for row in rows),
        tuple[Mark, ...](),
        tuple(round_times(window, columns)),
        now_column if 0 <= now_column < columns else None,
    )


def _lane_row(row: TransactionRow, spans: Sequence[TransactionSpan], now: int, window: Window, columns: int) -> CellRow:
    lane = CellRow(columns, GLYPHS, _PRIORITY)

    def columns_of(since: int, until: int) -> range:
        first, last = window.column(since, columns), window.column(min(until, now), columns)
        return range(max(first, 0), min(last, columns - 1) + 1)

    for held_row in row.held:
        if now - held_row.since >= LONG_HOLD_NS:
            lane.fill(columns_of(held_row.since, now), _HELD, "warning", row.last_row)
    for span in spans:
        until = now if span.ended_at is None else span.ended_at
        if span.begun_at >= window.end or until < window.start:
            continue
        lane.fill(columns_of(span.begun_at, until), TransactionOutcome.OPEN, "", span.row)
        lane.put(window.column(span.begun_at, columns), _BEGIN, "", span.row)
        if span.ended_at is not None:
            severity = "warning" if span.outcome is TransactionOutcome.FENCED else ""
            lane.put(window.column(span.ended_at, columns), span.outcome, severity, span.end_row)
    return lane
