"""The columns of the list of exchanges."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from kproxy.browse.rows.columns import Cell, api, what, wrong
from kproxy.browse.rows.exchange import Exchange
from kproxy.browse.rows.index import SEVERITIES, RowState
from kproxy.browse.session import BrowseSession
from kproxy.trace.formatting import duration, safe, size
from kproxy.trace.lines import RequestLine, ResponseLine
from kproxy.tui.table import TableColumn

_LETTERS = {"": " ", "info": "i", "warning": "W", "error": "E"}


class ExchangeRows:
    """The visible rows of a session, one per exchange."""

    columns: ClassVar[Sequence[TableColumn]] = (
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

    def __init__(self, session: BrowseSession) -> None:
        self._session = session

    def __len__(self) -> int:
        return len(self._session.visible)

    def key(self, position: int) -> int:
        """See `Rows`: the number of the row."""
        return self._session.visible[position]

    def position(self, key: Hashable) -> int | None:
        """See `Rows`."""
        return self._session.visible.position(key) if isinstance(key, int) else None

    def cells(self, position: int) -> Sequence[Cell]:
        """See `Rows`."""
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
            [((exchange.request or line).ts[11:23], "dim")],
            [("#" + safe(line.connection_id.rpartition("-")[2]), "dim")],
            [(safe(frame.client_id or ""), "")] if frame else [],
            api(exchange),
            what(exchange),
            _size(exchange.request),
            _size(exchange.response),
            self._latency(exchange),
            wrong(exchange, level),
        ]

    def _latency(self, exchange: Exchange) -> Cell:
        if exchange.state == RowState.ONE_WAY:
            return [("no answer", "dim")]
        if exchange.state == RowState.UNANSWERED:
            return [("never", "error")]
        waited = self._session.index.waited(exchange.row, self._session.now)
        style = "warning" if exchange.state == RowState.WAITING else ""
        return [(duration(waited), style)] if waited is not None else []


def _size(frame: RequestLine | ResponseLine | None) -> Cell:
    return [(size(frame.size), "")] if frame is not None else []
