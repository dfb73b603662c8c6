"""Which rows of an index are shown and in which order: filter, only findings, sort. Follows the index as it grows."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from enum import StrEnum

from kproxy.browse.rows.exchange import Exchange
from kproxy.browse.rows.index import Index
from kproxy.filters import Filter


class Order(StrEnum):
    """What rows are sorted by; the highest first, but for `TIME`."""

    TIME = "time"
    LATENCY = "latency"
    SIZE = "size"
    API = "API"
    CLIENT = "client"
    CONNECTION = "connection"
    SEVERITY = "findings"


class Shown:
    """The rows to show, as a sequence of row numbers.

    Args:
        index: Whose rows.
        exchange: Reads a row, for the filter; None if it is no longer kept.
    """

    def __init__(self, index: Index, exchange: Callable[[int], Exchange | None]) -> None:
        self._index = index
        self._exchange = exchange
        self.filter: Filter | None = None
        self.only_findings = False
        self.order = Order.TIME
        self.reverse = False
        self.version = 0  # changes when the rows do, or their order
        self._rows: array[int] | None = None  # None: all, as they are
        self._scanned = 0  # rows below this number have been asked
        self._sorted: Sequence[int] | None = None
        self._stale = False
        self._sort_took = 0.0
        self._sorted_at = 0.0

    def choose(self, chosen: Filter | None, *, only_findings: bool = False) -> None:
        """Show the rows that the filter matches, and of these perhaps only those with findings."""
        self.filter, self.only_findings = chosen, only_findings
        self._rows = None if chosen is None and not only_findings else array("Q")
        self._scanned = self._index.first
        self._sorted = None
        self.version += 1

    def sort(self, order: Order, *, reverse: bool = False) -> None:
        """Show them in this order."""
        self.order, self.reverse = order, reverse
        self._sorted = None
        self._stale = order is not Order.TIME or reverse
        self._sort_took = 0.0
        self.version += 1

    @property
    def progress(self) -> tuple[int, int]:
        """Rows asked, and rows there are."""
        return self._scanned - self._index.first if self._rows is not None else len(self._index.at), len(self._index.at)

    def update(self, changed: set[int]) -> None:
        """Rows of the index are new or have changed."""
        if changed:
            self._stale = True
            self.version += 1
        if self._rows is None:
            return
        first = self._index.first
        if self._rows and self._rows[0] < first:
            del self._rows[: bisect_left(self._rows, first)]
        self._scanned = max(self._scanned, first)
        for row in sorted(changed):
            if first <= row < self._scanned:
                self._set(row, wanted=self._wants(row))

    def work(self, seconds: float) -> bool:
        """Ask rows that were not asked yet, for so long; whether there is more to do."""
        ends = time.perf_counter() + seconds
        if self._rows is not None:
            while self._scanned < self._index.end:
                row = self._scanned
                if self._wants(row):
                    self._rows.append(row)
                    self._stale = True
                    self.version += 1
                self._scanned += 1
                if not row & 15 and time.perf_counter() > ends:
                    return True
        self._sort()
        return False

    def _sort(self) -> None:
        """Sort anew what has changed; the longer that takes, the less often."""
        if not self._stale or (self.order is Order.TIME and not self.reverse):
            return
        began = time.perf_counter()
        if self._sorted is not None and began - self._sorted_at < 20 * self._sort_took:
            return
        rows: Sequence[int] = range(self._index.first, self._index.end) if self._rows is None else self._rows
        if self.order is Order.TIME:
            self._sorted = rows[::-1]
        else:
            keys, first = self._keys(), self._index.first
            self._sorted = array("Q", sorted(rows, key=lambda row: keys(row - first), reverse=not self.reverse))
        self._stale = False
        self._sorted_at = time.perf_counter()
        self._sort_took = self._sorted_at - began
        self.version += 1

    def _keys(self) -> Callable[[int], int]:
        """What an entry is sorted by: the highest is shown first."""
        index = self._index
        if self.order is Order.API:
            return lambda entry: -index.api[entry]
        if self.order is Order.CLIENT:
            return _by_name(index.clients.ranks(), index.client)
        if self.order is Order.CONNECTION:
            return lambda entry: -index.connection[entry]
        if self.order is Order.SEVERITY:
            return lambda entry: index.severity[entry] * 2 + index.errors[entry]
        return index.size.__getitem__ if self.order is Order.SIZE else self._latency

    def _latency(self, entry: int) -> int:
        waited = self._index.waited(self._index.first + entry, self._index.now)
        return -1 if waited is None else waited

    def _wants(self, row: int) -> bool:
        if self.only_findings and not self._index.severity[row - self._index.first]:
            return False
        if self.filter is None:
            return True
        exchange = self._exchange(row)
        return exchange is not None and self.filter.matches(exchange.as_mapping())

    def _set(self, row: int, *, wanted: bool) -> None:
        assert self._rows is not None
        at = bisect_left(self._rows, row)
        there = self.has(row)
        if wanted and not there:
            self._rows.insert(at, row)
        elif there and not wanted:
            del self._rows[at]

    def __len__(self) -> int:
        rows = self._rows_now()
        return len(self._index.at) if rows is None else len(rows)

    def __getitem__(self, position: int) -> int:
        rows = self._rows_now()
        return self._index.first + position if rows is None else rows[position]

    def _rows_now(self) -> Sequence[int] | None:
        return self._rows if self._sorted is None else self._sorted

    def has(self, row: int) -> bool:
        """Whether a row is shown."""
        if self._rows is None:
            return self._index.first <= row < self._index.end
        at = bisect_left(self._rows, row)
        return at < len(self._rows) and self._rows[at] == row

    def position(self, row: int) -> int:
        """Where a row is shown; of one that is not, in order of time where it would be."""
        rows = self._rows_now()
        if rows is None:
            return max(0, min(row, self._index.end - 1) - self._index.first)
        if self._sorted is None:
            return bisect_left(rows, row)
        try:
            return rows.index(row)
        except ValueError:
            return 0


def _by_name(ranks: Sequence[int], numbers: array[int]) -> Callable[[int], int]:
    return lambda entry: -ranks[numbers[entry]]
