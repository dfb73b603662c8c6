"""Finds the row of the request that a finding on a line of its own is about."""

from __future__ import annotations

from typing import Final

from kproxy.browse.rows.index import RowState
from kproxy.browse.session import BrowseSession
from kproxy.verdict.cause import FindingLocation

#: Maximum number of rows to look at, and of rows of the same connection to read.
_MAX_ROWS: Final = 100_000
_MAX_READ: Final = 500


def request_row(session: BrowseSession, row: int, location: FindingLocation) -> int | None:
    """Return the row of the frame that a finding is about, which is the row itself unless it is an event.

    Returns None if the finding is not about a frame, or if its frame is not among the rows just before.
    """
    index = session.index
    if not index.first <= row < index.end or index.state[row - index.first] != RowState.EVENT:
        return row
    if location.correlation_id is None:
        return None
    connection = index.connection[row - index.first]
    read_count = 0
    for entry in range(row - index.first - 1, max(-1, row - index.first - 1 - _MAX_ROWS), -1):
        if index.connection[entry] != connection or index.state[entry] == RowState.EVENT:
            continue
        exchange = session.exchange(index.first + entry)
        if exchange is not None and exchange.frame is not None:
            if exchange.frame.correlation_id == location.correlation_id:
                return index.first + entry
            read_count += 1
        if read_count == _MAX_READ:
            return None
    return None
