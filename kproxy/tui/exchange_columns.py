"""The columns of the list of exchanges."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from enum import StrEnum

from kproxy.browse.rows.columns import Cell, api, problems, subject
from kproxy.browse.rows.exchange import Exchange
from kproxy.browse.rows.index import SEVERITIES, RowState, time_of
from kproxy.browse.session import BrowseSession
from kproxy.trace.formatting import duration, safe, size
from kproxy.trace.lines import RequestLine, ResponseLine
from kproxy.tui.table import TableColumn


class Times(StrEnum):
    """What the time column shows; except for `CLOCK`, the value is its title."""

    CLOCK = "time"
    SINCE_START = "since start"  # seconds since the first row
    DELTA = "delta"  # seconds since the row above


COLUMNS: Sequence[TableColumn] = (
    TableColumn("", 2),
    TableColumn("time", 12, drop=1),
    TableColumn("conn", 5, right=True, drop=5),
    TableColumn("client", 12, grow=2, drop=4),
    TableColumn("API", 18, grow=1),
    TableColumn("what", 12, grow=4),
    TableColumn("req size", 8, right=True, drop=6),
    TableColumn("resp size", 9, right=True, drop=6),
    TableColumn("latency", 8, right=True),
    TableColumn("error / finding", 20, grow=3, drop=2),
)
_TIME_INDEX = 1  # the index of the time column
_DATE_WIDTH = 6  # characters of "11-25 "

_LETTERS = {"": " ", "info": "i", "warning": "W", "error": "E"}


class ExchangeRows:
    """The visible rows of a session, one per exchange."""

    def __init__(self, session: BrowseSession) -> None:
        self._session = session
        self.times = Times.CLOCK
        self._columns = COLUMNS

    @property
    def columns(self) -> Sequence[TableColumn]:
        """See `TableRows`. Returns the same object until the columns change."""
        title, width = str(self.times), 12
        if self.times is Times.CLOCK and self._session.index.at:
            first, last = self._time_range()
            title = f"time {self._session.clock.label(last)}"
            width += _DATE_WIDTH * self._spans_days(first, last)
        if (title, width) != (self._columns[_TIME_INDEX].title, self._columns[_TIME_INDEX].width):
            time_column = replace(COLUMNS[_TIME_INDEX], title=title, width=width)
            self._columns = (*COLUMNS[:_TIME_INDEX], time_column, *COLUMNS[_TIME_INDEX + 1 :])
        return self._columns

    def _time_range(self) -> tuple[int, int]:
        """Return the first and the last time of all rows."""
        index = self._session.index
        return index.time(index.first if index.by_time is None else index.by_time.rows[0]), index.latest_at

    def _spans_days(self, first: int, last: int) -> bool:
        return self._session.clock.day(first) != self._session.clock.day(last)

    def __len__(self) -> int:
        return len(self._session.visible)

    def key(self, position: int) -> int:
        """See `TableRows`: the number of the row."""
        return self._session.visible[position]

    def position(self, key: Hashable) -> int | None:
        """See `TableRows`."""
        return self._session.visible.position(key) if isinstance(key, int) else None

    def cells(self, position: int) -> Sequence[Cell]:
        """See `TableRows`."""
        session = self._session
        row = session.visible[position]
        exchange = session.exchange(row)
        if exchange is None:
            return [[] for _ in self.columns]
        level = SEVERITIES[session.index.severity[row - session.index.first]]
        note = session.notes.get(row)
        mark = ("*" if note.marked else ";" if note.text else " ") if note else " "
        line = exchange.line
        frame = exchange.frame
        return [
            [(mark, "info" if mark.strip() else ""), (_LETTERS[level], level)],
            self._time_cell(position, (exchange.request or line).ts),
            [("#" + safe(line.connection_id.rpartition("-")[2]), "dim")],
            [(safe(frame.client_id or ""), "")] if frame else [],
            api(exchange),
            subject(exchange),
            _size_cell(exchange.request),
            _size_cell(exchange.response),
            self._latency_cell(exchange),
            [
                *([(f"; {safe(note.text)}  ", "info")] if note is not None and note.text else ()),
                *problems(exchange, level),
            ],
        ]

    def _time_cell(self, position: int, ts: str) -> Cell:
        index, clock = self._session.index, self._session.clock
        at = time_of(ts)
        if self.times is Times.CLOCK:
            text = clock.date_and_time(ts)
            return [(text[5:] if self._spans_days(*self._time_range()) else text[11:], "dim")]
        if self.times is Times.SINCE_START:
            since: int | None = self._time_range()[0]
        else:
            since = index.time(self._session.visible[position - 1]) if position else None
        return [("" if since is None else f"{(at - since) / 1e9:12.6f}", "dim")]

    def _latency_cell(self, exchange: Exchange) -> Cell:
        if exchange.state == RowState.ONE_WAY:
            return [("no answer", "dim")]
        if exchange.state == RowState.UNANSWERED:
            return [("never", "error")]
        latency = self._session.index.latency_or_wait(exchange.row, self._session.now)
        style = "warning" if exchange.state == RowState.WAITING else ""
        return [(duration(latency), style)] if latency is not None else []


def _size_cell(frame: RequestLine | ResponseLine | None) -> Cell:
    return [(size(frame.size), "")] if frame is not None else []
