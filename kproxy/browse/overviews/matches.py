"""Overviews of the rows that match a filter: their counts, and the names in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from dissectors.bounded import MAX_NAME_LENGTH
from dissectors.connections.addresses import host_of
from kproxy.browse.overviews.apis import Apis
from kproxy.browse.rows.index import RowIndex, RowState, time_of
from kproxy.browse.rows.visible_rows import VisibleRows
from kproxy.trace.lines import Line, OpenLine, RequestLine, ResponseLine
from kproxy.verdict.causes import Causes

#: Bits of `_counted`: which lines of a row have been counted.
_REQUEST, _RESPONSE = 1, 2
#: States of requests that no longer wait for a response.
_ENDED = (RowState.UNANSWERED, RowState.UNSEEN)
#: Minimum seconds between two restarts, and how many times longer a pause is than the counting before it.
_PAUSE_S = 2.0
_PAUSE_FACTOR = 10
#: Maximum number of entries kept for discarded rows before they are deleted.
_MAX_FORGOTTEN = 100_000


class MatchCounter:
    """Counts the visible rows in slices, once an overview has requested it.

    APIs and findings are counted from scratch. Connections, clients, groups and topics need lines that a filter
    excludes (software name, topic id, heartbeats), so only the names in the visible rows are collected for these.

    Args:
        index: All rows.
        visible: The visible rows.
        lines: Returns the lines of a row.
        findings: The causes in all rows.
    """

    def __init__(
        self, index: RowIndex, visible: VisibleRows, lines: Callable[[int], Iterable[Line]], findings: Causes
    ) -> None:
        self._index, self._visible, self._lines, self._all_findings = index, visible, lines, findings
        self._active = False
        self._counted_choice = -1
        self._counting_s = 0.0
        self._restart()

    def _restart(self) -> None:
        self.apis, self.findings = Apis(), Causes(whole=self._all_findings)
        self.connections: set[str] = set()
        self.groups: set[str] = set()
        self.transactions: set[str] = set()
        self.topics: set[str] = set()  # names and ids
        self.clients: set[tuple[str | None, str]] = set()  # client id and host
        self._base = self._next = self._index.first
        self._counted = bytearray()  # by row from `_base` on
        self._changed_rows: set[int] = set()
        self._stale = False
        self._began = time.monotonic()

    def activate(self) -> MatchCounter:
        """Keep the counts up to date with the filter from now on, and return this counter."""
        if self._counted_choice != self._visible.choices:
            self._counted_choice = self._visible.choices
            self._counting_s = 0.0
            self._restart()
        self._active = True
        return self

    @property
    def progress(self) -> tuple[int, int]:
        """Rows examined, and rows in total."""
        return (self._next - self._index.first if self._active else len(self._index.at)), len(self._index.at)

    def update(self, changed: Iterable[int]) -> None:
        """Note that rows of the index have changed."""
        if self._active:
            self._changed_rows.update(row for row in changed if row < self._next)

    def work(self, time_limit: float) -> tuple[bool, bool]:
        """Count for `time_limit` seconds; return whether anything was counted, and whether work remains."""
        if self._counted_choice != self._visible.choices or not self._visible.is_narrowed:
            self._active = False
        if not self._active:
            return False, False
        began = time.perf_counter()
        if self._stale and time.monotonic() - self._began > max(_PAUSE_S, _PAUSE_FACTOR * self._counting_s):
            self._counting_s = 0.0
            self._restart()
        self._forget()
        counted = bool(self._changed_rows) or self._next < self._visible.scanned
        while self._changed_rows:
            self._recount(self._changed_rows.pop())
        deadline = began + time_limit
        while self._next < self._visible.scanned:
            row = self._next
            self._next += 1
            self._counted.append(self._count(row, 0))
            if not row & 15 and time.perf_counter() > deadline:
                break
        self._counting_s += time.perf_counter() - began
        return counted, self._next < self._visible.scanned

    def _forget(self) -> None:
        """Delete the entries of discarded rows; these rows stay counted."""
        first = self._index.first
        if self._next < first:
            self._counted += bytes(first - self._next)
            self._next = first
        if (discarded := first - self._base) > _MAX_FORGOTTEN:
            del self._counted[:discarded]
            self._base = first

    def _recount(self, row: int) -> None:
        """Recount a row that has changed: it got its response, or no longer matches."""
        if row < self._index.first:
            return
        index = row - self._base
        if self._visible.has(row):
            self._counted[index] |= self._count(row, self._counted[index])
        elif self._counted[index]:
            self._stale = True  # counts cannot be undone

    def _count(self, row: int, counted_before: int) -> int:
        """Count the lines of a row that are not in `counted_before`; return the bits of the lines counted now."""
        matches, entry = self._visible.has(row), row - self._index.first
        if not matches and not self._index.connection_events[entry]:
            return 0
        counted = 0
        for line in self._lines(row):
            side = _RESPONSE if isinstance(line, ResponseLine) else _REQUEST
            if counted_before & side:
                continue
            at = time_of(line.ts)
            if matches:
                counted |= side
                self.apis.observe(line, row, at, (row,))
                self.findings.add(line, row)
                self._collect_names(line)
            elif isinstance(line, OpenLine):
                self.findings.follow(line)  # later findings need its addresses
        if (state := self._index.state[entry]) in _ENDED:
            self.apis.count_ended((row,), unanswered=state == RowState.UNANSWERED)
        return counted

    def _collect_names(self, line: Line) -> None:
        self.connections.add(line.connection_id)
        if isinstance(line, RequestLine | ResponseLine):
            self.clients.add((line.client_id and line.client_id[:MAX_NAME_LENGTH], host_of(line.client)))
            if line.group_id is not None:
                self.groups.add(line.group_id[:MAX_NAME_LENGTH])
            if line.transactional_id is not None:
                self.transactions.add(line.transactional_id[:MAX_NAME_LENGTH])
            for topic in line.topics:
                self.topics.update(name[:MAX_NAME_LENGTH] for name in (topic.topic, topic.topic_id) if name)
