"""The visible rows of an index and their order: filter, findings only, sort. Follows the index as it grows."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Generator, Sequence
from enum import StrEnum

from kproxy.browse.rows.by_time import RowsByTime
from kproxy.browse.rows.index import RowIndex
from kproxy.browse.rows.sort import sort_rows
from kproxy.filters import Filter

#: How many times longer the pause after a sort is than the sort itself.
_PAUSE_FACTOR = 20

#: The sort key of rows without a latency when the fastest come first.
_MAX_LATENCY = 1 << 62


class Order(StrEnum):
    """Sort orders; highest value first, except `TIME`."""

    TIME = "time"
    LATENCY = "latency"
    SIZE = "size"
    API = "API"
    CLIENT = "client"
    CONNECTION = "connection"
    SEVERITY = "findings"


class VisibleRows:
    """The visible rows, as a sequence of row numbers.

    Args:
        index: The index.
        row_matcher: Returns a function that reports whether a filter matches a row.
    """

    def __init__(self, index: RowIndex, row_matcher: Callable[[Filter], Callable[[int], bool]]) -> None:
        self._index = index
        self._row_matcher = row_matcher
        self._matches: Callable[[int], bool] | None = None
        self.filter: Filter | None = None
        self.only_findings = False
        self.order = Order.TIME
        self.reverse = False
        self.version = 0  # changes with the rows or their order
        self.choices = 0  # number of times the filter was set
        self._rows: RowsByTime | None = None  # None: all
        self._rows_from = 0  # the first row of the index when discarded rows were removed
        self._scanned = 0  # rows below this number have been filtered
        self._sorted: Sequence[int] | None = None
        self._stale = False
        self._sorting: Generator[None, None, Sequence[int]] | None = None
        self._sorting_from = 0  # the first row of the index when sorting began
        self._sort_took = 0.0
        self._sorted_at = 0.0

    def choose(self, row_filter: Filter | None, *, only_findings: bool = False) -> None:
        """Show the rows that match the filter; with `only_findings`, only those with findings."""
        self.filter, self.only_findings = row_filter, only_findings
        self.choices += 1
        self._matches = None if row_filter is None else self._row_matcher(row_filter)
        self._rows = None if row_filter is None and not only_findings else RowsByTime(self._index.time)
        self._scanned = self._index.first
        self._restart_sort()

    def sort(self, order: Order, *, reverse: bool = False) -> None:
        """Set the sort order."""
        self.order, self.reverse = order, reverse
        self._restart_sort()

    def _restart_sort(self) -> None:
        self._sorted = self._sorting = None
        self._stale = self.is_unsorted
        self._sort_took = 0.0
        self.version += 1

    @property
    def is_narrowed(self) -> bool:
        """Whether rows may be hidden."""
        return self._rows is not None

    @property
    def scanned(self) -> int:
        """Rows below this number have been filtered."""
        return self._index.end if self._rows is None else self._scanned

    @property
    def is_unsorted(self) -> bool:
        """Whether sorting is not finished."""
        return self._sorted is None and (self.order is not Order.TIME or self.reverse)

    @property
    def is_behind(self) -> bool:
        """Whether rows remain to be filtered or sorted."""
        return self.is_unsorted or (self._rows is not None and self._scanned < self._index.end)

    @property
    def progress(self) -> tuple[int, int]:
        """Rows filtered, and rows in total."""
        return self._scanned - self._index.first if self._rows is not None else len(self._index.at), len(self._index.at)

    def update(self, changed: set[int]) -> None:
        """Process rows of the index that are new or have changed."""
        if changed:
            self._stale = True
            self.version += 1
        if self._rows is None:
            return
        first = self._index.first
        if self._rows_from != first:
            self._rows_from = first
            self._rows.forget(first)
        self._scanned = max(self._scanned, first)
        for row in sorted(changed):
            if first <= row < self._scanned:
                self._set_visible(row, visible=self._is_match(row))

    def work(self, time_limit: float) -> bool:
        """Filter and sort for `time_limit` seconds; return whether work remains."""
        deadline = time.perf_counter() + time_limit
        is_unfinished = self._sort(deadline)
        if self._rows is not None:
            while self._scanned < self._index.end:
                row = self._scanned
                if self._is_match(row):
                    self._rows.add(row)
                    self._stale = True
                    self.version += 1
                self._scanned += 1
                if not row & 15 and time.perf_counter() > deadline:
                    return True
        return is_unfinished or self._sort(deadline)

    def _sort(self, deadline: float) -> bool:
        """Re-sort if rows have changed; the longer sorts take, the fewer there are. Return whether work remains."""
        if self._sorting is None or self._sorting_from != self._index.first:
            if not self._stale or (self.order is Order.TIME and not self.reverse):
                return False
            if not self.is_unsorted and time.perf_counter() - self._sorted_at < _PAUSE_FACTOR * self._sort_took:
                return False
            self._start_sort()
        began = time.perf_counter()
        while self._sorting is not None and time.perf_counter() <= deadline:
            try:
                next(self._sorting)
            except StopIteration as result:
                self._finish_sort(result.value)
        self._sort_took += time.perf_counter() - began
        return self._sorting is not None

    def _start_sort(self) -> None:
        self._stale, self._sort_took = False, 0.0
        first = self._sorting_from = self._index.first
        rows = self._by_time()
        if self.order is Order.TIME:
            self._finish_sort(rows[::-1])
        else:
            key, sign = self._sort_key(), 1 if self.reverse else -1
            self._sorting = sort_rows(rows[:], lambda row: sign * key(row - first))

    def _finish_sort(self, rows: Sequence[int]) -> None:
        self._sorted, self._sorting = rows, None
        self._sorted_at = time.perf_counter()
        self.version += 1

    def _sort_key(self) -> Callable[[int], int]:
        """Return the sort key of an entry; the highest is shown first."""
        index = self._index
        if self.order is Order.API:
            return lambda entry: -index.api[entry]
        if self.order is Order.CLIENT:
            return _rank_key(index.clients.ranks(), index.client)
        if self.order is Order.CONNECTION:
            return lambda entry: -index.connection[entry]
        if self.order is Order.SEVERITY:
            return lambda entry: index.severity[entry] * 2 + index.errors[entry]
        return index.size.__getitem__ if self.order is Order.SIZE else self._latency

    def _latency(self, entry: int) -> int:
        latency = self._index.latency_or_wait(self._index.first + entry, self._index.latest_at)
        if latency is None:  # shown last
            return _MAX_LATENCY if self.reverse else -1
        return latency

    def _is_match(self, row: int) -> bool:
        if self.only_findings and not self._index.severity[row - self._index.first]:
            return False
        return self._matches is None or self._matches(row)

    def _set_visible(self, row: int, *, visible: bool) -> None:
        assert self._rows is not None
        present = self._rows.has(row)
        if visible and not present:
            self._rows.add(row)
        elif present and not visible:
            self._rows.remove(row)

    def __len__(self) -> int:
        return len(self._current_rows())

    def __getitem__(self, position: int) -> int:
        return self._current_rows()[position]

    def _current_rows(self) -> Sequence[int]:
        return self._by_time() if self._sorted is None else self._sorted

    def _by_time(self) -> Sequence[int]:
        """Return the rows by time, regardless of the sort order."""
        if self._rows is not None:
            return self._rows.rows
        rows_by_time, index = self._index.by_time, self._index
        return range(index.first, index.end) if rows_by_time is None else rows_by_time.rows

    def has(self, row: int) -> bool:
        """Whether a row is visible."""
        if self._rows is None:
            return self._index.first <= row < self._index.end
        return self._rows.has(row)

    def position(self, row: int) -> int:
        """Return the position of a row; for a hidden row, where it would be by time, or 0 in other orders."""
        if self._sorted is not None:
            try:
                return self._sorted.index(row)
            except ValueError:
                return 0
        row = max(self._index.first, min(row, self._index.end - 1))
        rows_by_time = self._index.by_time if self._rows is None else self._rows
        return max(0, row - self._index.first) if rows_by_time is None else rows_by_time.position(row)


def _rank_key(ranks: Sequence[int], numbers: array[int]) -> Callable[[int], int]:
    return lambda entry: -ranks[numbers[entry]]
