"""The recent past for those who come later: what is still open however long ago it began, and the last lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from kproxy.control.summary import strip, with_frame
from kproxy.inspection.inspector import Inspector
from kproxy.trace.encoding import encode_line

BACKLOG_BYTES: Final = 4 << 20
#: Of one connection, so many unanswered requests are told that are older than the last lines.
MOST_WAITING: Final = 1000
_TS: Final = b'"ts":"'
_TS_BYTES: Final = 27


class Backlog:
    """The last encoded lines, as many as fit into `limit` bytes."""

    def __init__(self, limit: int = BACKLOG_BYTES) -> None:
        self._limit = limit
        self._lines: deque[bytes] = deque()
        self._size = 0

    def add(self, line: bytes) -> None:
        """Take a line, at the detail `summary`."""
        self._lines.append(line)
        self._size += len(line)
        while self._size > self._limit:
            self._size -= len(self._lines.popleft())

    def lines(self, inspector: Inspector, *, frames: bool) -> Iterator[bytes]:
        """What is open now and began before the last lines, then these; by time, and each once.

        With `frames`, requests that are still unanswered have theirs: of others they are gone.
        """
        unfinished = {line: with_frame(line, frame) if frames and frame else line for line, frame in _open(inspector)}
        recent = set(self._lines)
        for line in sorted((line for line in unfinished if line not in recent), key=_time):
            yield unfinished[line]
        for line in self._lines:
            yield unfinished.get(line, line)


def _open(inspector: Inspector) -> Iterator[tuple[bytes, str | None]]:
    """The lines of what is open, the same bytes as when they were told, and their frames."""
    for connection in inspector.open_now():
        yield encode_line(connection.opened), None
        for request in islice(connection.waiting, MOST_WAITING):
            frame = strip(request)
            yield encode_line(request), frame


def _time(line: bytes) -> bytes:
    start = line.index(_TS) + len(_TS)
    return line[start : start + _TS_BYTES]
