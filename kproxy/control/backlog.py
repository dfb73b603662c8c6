"""Recent trace lines for viewers that connect later, and older lines of connections and requests still open."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from kproxy.control.watch_state import WatchedInspector
from kproxy.trace.lines import Detail
from kproxy.trace.shared_line import SharedLine, with_frame

BACKLOG_BYTES: Final = 4 << 20
#: At most this many unanswered requests per connection are sent in addition to the latest lines.
MAX_UNANSWERED: Final = 1000


class _Identity(Struct, frozen=True):
    """Identifies a line. Its bytes do not, because they may lack findings that another worker has reported."""

    ts: str
    kind: str
    connection_id: str
    offset: int | None = None


class Backlog:
    """The latest encoded lines, up to `limit` bytes."""

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

    def lines(self, inspector: WatchedInspector, *, frames: bool) -> Iterator[bytes]:
        """Yield older lines of open connections and unanswered requests, then the latest lines. Each line comes once.

        With `frames`, unanswered requests have their frames. Frames of other lines are not kept.
        """
        unfinished = {
            _identity(shared_line.encoded(Detail.SUMMARY)): shared_line
            for shared_line in _open_connection_lines(inspector)
        }
        recent = [(line, _identity(line)) for line in self._lines]
        reported = {identity for _, identity in recent}
        for identity in sorted(
            (identity for identity in unfinished if identity not in reported), key=lambda identity: identity.ts
        ):
            yield unfinished[identity].for_viewer(payloads=False, frames=frames)
        for line, identity in recent:
            request = unfinished.get(identity) if frames else None
            yield line if request is None or request.frame is None else with_frame(line, request.frame)


def _open_connection_lines(inspector: WatchedInspector) -> Iterator[SharedLine]:
    """Yield the lines of open connections and unanswered requests."""
    for connection in inspector.open_connections():
        yield SharedLine(connection.opened)
        yield from map(SharedLine, islice(connection.waiting, MAX_UNANSWERED))


def _identity(line: bytes) -> _Identity:
    return msgspec.json.decode(line, type=_Identity)
