"""Recent trace lines for viewers that connect later: the last lines, and older ones of what is still open."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from kproxy.control.summary import strip, with_frame
from kproxy.control.watched import Watched
from kproxy.trace.encoding import encode_line

BACKLOG_BYTES: Final = 4 << 20
#: Unanswered requests per connection that are sent although they are older than the last lines.
MAX_UNANSWERED: Final = 1000
_TS: Final = b'"ts":"'
_TS_BYTES: Final = 27


class Backlog:
    """The last encoded lines, up to `limit` bytes."""

    def __init__(self, limit: int = BACKLOG_BYTES) -> None:
        self._limit = limit
        self._lines: deque[bytes] = deque()
        self._size = 0

    def add(self, line: bytes) -> None:
        """Add a line, encoded at detail `summary`."""
        self._lines.append(line)
        self._size += len(line)
        while self._size > self._limit:
            self._size -= len(self._lines.popleft())

    def lines(self, inspector: Watched, *, frames: bool) -> Iterator[bytes]:
        """Older lines of open connections and unanswered requests, then the last lines; by time, each once.

        With `frames`, unanswered requests have their frames. Those of other lines are not kept.
        """
        unfinished = {line: with_frame(line, frame) if frames and frame else line for line, frame in _open(inspector)}
        recent = set(self._lines)
        for line in sorted((line for line in unfinished if line not in recent), key=_time):
            yield unfinished[line]
        for line in self._lines:
            yield unfinished.get(line, line)


def _open(inspector: Watched) -> Iterator[tuple[bytes, str | None]]:
    """The lines of open connections and unanswered requests, encoded as before, with their frames (base64)."""
    for connection in inspector.open_now():
        yield encode_line(connection.opened), None
        for request in islice(connection.waiting, MAX_UNANSWERED):
            frame = strip(request)
            yield encode_line(request), frame


def _time(line: bytes) -> bytes:
    start = line.index(_TS) + len(_TS)
    return line[start : start + _TS_BYTES]
