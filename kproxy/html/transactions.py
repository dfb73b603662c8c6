"""The transactions on a page: the table of the terminal view, with the times of each for its timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.browse.session import BrowseSession
from kproxy.transactions.cells import COLUMNS, cells
from kproxy.transactions.rows import TransactionRow

#: Most transactional ids on a page, and most transactions of each: the latest.
MOST_ROWS = 200
MOST_SPANS = 200


def transactions(session: BrowseSession, numbers: Mapping[int, int]) -> dict[str, Any]:
    """The table: `columns`, and `rows` with cells, the row of the page where each begins, and its transactions.

    A transaction is ``[begin, end, outcome, row]``: times in ms since `from`, of `length` ms. `numbers` are the rows of
    the page by those of the index; -1 stands for others.
    """
    overview, now = session.overviews.transactions, session.now
    rows = sorted(overview.rows(now), key=_urgency)
    start = min((each.first_at for each in rows), default=now)

    def one(row: TransactionRow) -> dict[str, Any]:
        spans = [
            [
                (span.begun_at - start) // 1_000_000,
                ((now if span.ended_at is None else span.ended_at) - start) // 1_000_000,
                span.outcome.value,
                numbers.get(span.row, -1),
            ]
            for span in overview.spans(row.key)[-MOST_SPANS:]
        ]
        return {"cells": cells(row, now), "row": numbers.get(row.row, -1), "spans": spans}

    return {
        "columns": [*COLUMNS, "when it was open"],
        "rows": [one(each) for each in rows[:MOST_ROWS]],
        "length": max((now - start) // 1_000_000, 1),
        "more": max(len(rows) - MOST_ROWS, 0) + overview.evicted,
    }


def _urgency(row: TransactionRow) -> tuple[bool, bool, int]:
    return not row.held, row.begun_at is None, row.begun_at or row.first_at
