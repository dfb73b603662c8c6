"""What a filter leaves of the overviews: figures of the matching rows, and the things that these rows mention."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from dissectors.connections.addresses import host_of
from kproxy.browse.overviews.apis import Apis
from kproxy.browse.overviews.findings import Findings
from kproxy.browse.rows.index import RowIndex, RowState, time_of
from kproxy.browse.rows.visible_rows import Shown
from kproxy.counting.names import MAX_NAME_LENGTH
from kproxy.trace.lines import CloseLine, GapLine, Line, OpenLine, RequestLine, ResponseLine

#: Bits of `_taken`: which lines of a row were counted.
_REQUEST, _RESPONSE = 1, 2
#: Seconds between two new starts at least, and how many times as long as counting took.
_PAUSE_S = 2.0
_SHARE = 10
#: Entries of rows that are no longer kept, before they are dropped.
_MOST_FORGOTTEN = 100_000


class Matching:
    """Counts the rows that are shown, a slice at a time, from the moment an overview asks for them.

    APIs and findings are counted anew. Connections, clients, groups and topics need lines that a filter leaves out (a
    software name, a topic's id, a heartbeat), so of these only the names are collected that the rows mention.

    Args:
        index: All rows.
        shown: Which of them match.
        lines: The lines of a row.
    """

    def __init__(self, index: RowIndex, shown: Shown, lines: Callable[[int], Iterable[Line]]) -> None:
        self._index, self._shown, self._lines = index, shown, lines
        self._wanted = False
        self._choice = -1
        self._took = 0.0
        self._restart()

    def _restart(self) -> None:
        self.apis, self.findings = Apis(), Findings()
        self.connections: set[str] = set()
        self.groups: set[str] = set()
        self.topics: set[str] = set()  # names and ids
        self.clients: set[tuple[str | None, str]] = set()  # client id and host
        self._base = self._next = self._index.first
        self._taken = bytearray()  # by row from `_base` on
        self._late: set[int] = set()
        self._stale = False
        self._began = time.monotonic()

    def wanted(self) -> Matching:
        """Itself, from now on up to date with the filter."""
        if self._choice != self._shown.choices:
            self._choice = self._shown.choices
            self._took = 0.0
            self._restart()
        self._wanted = True
        return self

    @property
    def progress(self) -> tuple[int, int]:
        """Rows looked at, and rows there are."""
        return (self._next - self._index.first if self._wanted else len(self._index.at)), len(self._index.at)

    def update(self, changed: Iterable[int]) -> None:
        """Rows of the index have changed."""
        if self._wanted:
            self._late.update(row for row in changed if row < self._next)

    def work(self, seconds: float) -> tuple[bool, bool]:
        """Count for so long; whether anything was counted, and whether there is more to do."""
        if self._choice != self._shown.choices or not self._shown.is_narrowed:
            self._wanted = False
        if not self._wanted:
            return False, False
        began = time.perf_counter()
        if self._stale and time.monotonic() - self._began > max(_PAUSE_S, _SHARE * self._took):
            self._took = 0.0
            self._restart()
        self._forget()
        counted = bool(self._late) or self._next < self._shown.scanned
        while self._late:
            self._recount(self._late.pop())
        ends = began + seconds
        while self._next < self._shown.scanned:
            row = self._next
            self._next += 1
            self._taken.append(self._count(row, 0))
            if not row & 15 and time.perf_counter() > ends:
                break
        self._took += time.perf_counter() - began
        return counted, self._next < self._shown.scanned

    def _forget(self) -> None:
        """Rows that are no longer kept stay counted; nothing more will come of them."""
        first = self._index.first
        if self._next < first:
            self._taken += bytes(first - self._next)
            self._next = first
        if (gone := first - self._base) > _MOST_FORGOTTEN:
            del self._taken[:gone]
            self._base = first

    def _recount(self, row: int) -> None:
        """A row that was looked at has changed: it was answered, or matches no more."""
        if row < self._index.first:
            return
        at = row - self._base
        if self._shown.has(row):
            self._taken[at] |= self._count(row, self._taken[at])
        elif self._taken[at]:
            self._stale = True  # what was counted cannot be taken back

    def _count(self, row: int, before: int) -> int:
        """Count the lines of a row beside those in `before`; which were."""
        matches = self._shown.has(row)
        if not matches and self._index.state[row - self._index.first] != RowState.EVENT:
            return 0
        taken = 0
        for line in self._lines(row):
            side = _RESPONSE if isinstance(line, ResponseLine) else _REQUEST
            if before & side:
                continue
            at = time_of(line.ts)
            if matches:
                taken |= side
                self.findings.take(line, row, at)
                self._mention(line)
            elif isinstance(line, OpenLine):
                self.findings.take(line, row, at)  # it has the addresses of later findings
            if matches or isinstance(line, OpenLine | CloseLine | GapLine):
                self.apis.take(line, row, at)  # what was in flight has ended, whatever the filter is
        return taken

    def _mention(self, line: Line) -> None:
        self.connections.add(line.connection_id)
        if isinstance(line, RequestLine | ResponseLine):
            self.clients.add((line.client_id and line.client_id[:MAX_NAME_LENGTH], host_of(line.client)))
            if line.group_id is not None:
                self.groups.add(line.group_id[:MAX_NAME_LENGTH])
            for topic in line.topics:
                self.topics.update(name[:MAX_NAME_LENGTH] for name in (topic.topic, topic.topic_id) if name)
