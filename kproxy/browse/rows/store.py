"""Stores of trace lines: files that may still grow, with random access."""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from kproxy.browse.rows.partial_parse import parse_partial

#: Bytes read at once.
_CHUNK: Final = 1 << 16


class Store(Protocol):
    """Lines in order, each at a fixed location."""

    def take_new_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the complete lines not read before, without their newline, each with its location."""

    def read(self, location: int, size: int) -> bytes:
        """Return the bytes at a location; fewer if they have been discarded."""

    @property
    def first(self) -> int:
        """The lowest location that has not been discarded."""

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes read, and bytes in total."""

    def close(self) -> None:
        """Close the files."""


class LineReader:
    """Splits a growing file into lines. An incomplete last line is held back; an overlong line is skipped.

    Args:
        fd: The file's descriptor; the file may grow, but existing bytes must not change.
    """

    LONGEST = 64 << 20  # bytes of a line: a frame of 8 MiB in base64, with its body

    def __init__(self, fd: int) -> None:
        self.complete = False  # the file is complete: the last line may lack a newline
        self._fd = fd
        self._offset = 0
        self._rest = bytearray()

    @property
    def offset(self) -> int:
        """Number of bytes read."""
        return self._offset

    def take_new_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the next complete lines with their offsets."""
        while data := os.pread(self._fd, _CHUNK, self._offset):
            line_start = self._offset - len(self._rest)
            self._offset += len(data)
            complete_size = data.rfind(b"\n") + 1
            lines = (bytes(self._rest) + data[:complete_size]).split(b"\n")[:-1] if complete_size else []
            if complete_size:
                self._rest.clear()
            self._rest += data[complete_size:]
            if len(self._rest) > self.LONGEST:
                self._rest.clear()
            for line in lines:
                if line:
                    yield line_start, line
                line_start += len(line) + 1
        if self.complete and self._rest:
            last_line = bytes(self._rest)
            self._rest.clear()
            yield self._offset - len(last_line), last_line


class FileStore:
    """An uncompressed trace file, which may still grow.

    Args:
        fd: The file's descriptor, closed with the store.
    """

    first = 0

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lines = LineReader(fd)

    def take_new_lines(self) -> Iterator[tuple[int, bytes]]:
        """See `Store`."""
        return self._lines.take_new_lines()

    def read(self, location: int, size: int) -> bytes:
        """See `Store`."""
        return os.pread(self._fd, size, location)

    @property
    def progress(self) -> tuple[int, int]:
        """See `Store`."""
        return self._lines.offset, os.fstat(self._fd).st_size

    def end(self) -> None:
        """Note that the file is complete."""
        self._lines.complete = True

    def close(self) -> None:
        """See `Store`."""
        os.close(self._fd)


class Spool:
    """Lines from another source, kept in unnamed temporary files; beyond a limit the oldest are discarded.

    Args:
        keep: Bytes to keep, None for all.
        segment: Approximate size of one file in bytes.
    """

    def __init__(self, *, keep: int | None = None, segment: int = 64 << 20) -> None:
        self._keep = keep
        self._segment = segment
        self._segment_starts: deque[int] = deque()
        self._fds: deque[int] = deque()
        self._end = 0
        self._next_offset = 0
        self._rest = bytearray()

    @property
    def first(self) -> int:
        """See `Store`."""
        return self._segment_starts[0] if self._segment_starts else 0

    def append(self, data: bytes) -> None:
        """Append bytes, in chunks of any size.

        Raises:
            OSError: The disk is full.
        """
        complete_size = data.rfind(b"\n") + 1
        if not complete_size:
            self._rest += data
            if len(self._rest) > LineReader.LONGEST:
                self._rest.clear()
            return
        lines = bytes(self._rest) + data[:complete_size]
        if not self._fds or self._end - self._segment_starts[-1] >= self._segment:
            self._begin_segment()
        view = memoryview(lines)
        offset = self._end - self._segment_starts[-1]
        while view:
            written_bytes = os.pwrite(self._fds[-1], view, offset)
            view, offset = view[written_bytes:], offset + written_bytes
        self._rest = bytearray(data[complete_size:])
        self._end += len(lines)

    def end(self) -> None:
        """Note that the input is complete; keep a last line without a newline only if it can be parsed.

        Raises:
            OSError: The disk is full.
        """
        if self._rest and parse_partial(bytes(self._rest)) is not None:
            self.append(b"\n")

    def _begin_segment(self) -> None:
        with tempfile.TemporaryFile(prefix="kproxy-", dir=_directory()) as file:
            self._fds.append(os.dup(file.fileno()))
        self._segment_starts.append(self._end)
        while self._keep is not None and self._end - self._segment_starts[0] > self._keep:
            os.close(self._fds.popleft())
            self._segment_starts.popleft()

    def take_new_lines(self) -> Iterator[tuple[int, bytes]]:
        """See `Store`."""
        while self._next_offset < self._end:
            self._next_offset = max(self._next_offset, self.first)
            size = _CHUNK
            while not (complete_size := (data := self.read(self._next_offset, size)).rfind(b"\n") + 1):
                if len(data) < size:
                    return  # another process truncated the file
                size *= 8  # a long line
            for line in data[:complete_size].split(b"\n")[:-1]:
                location = self._next_offset
                self._next_offset += len(line) + 1
                if line:
                    yield location, line

    def read(self, location: int, size: int) -> bytes:
        """See `Store`; the range must not cross the end of a segment."""
        if location < self.first or not self._fds:
            return b""
        number = bisect_right(self._segment_starts, location) - 1
        end = self._segment_starts[number + 1] if number + 1 < len(self._segment_starts) else self._end
        return os.pread(self._fds[number], min(size, end - location), location - self._segment_starts[number])

    @property
    def progress(self) -> tuple[int, int]:
        """See `Store`."""
        return self._next_offset, self._end

    def close(self) -> None:
        """See `Store`."""
        while self._fds:
            os.close(self._fds.pop())
        self._segment_starts.clear()


def _directory() -> str | None:
    """Return a directory on disk for temporary files: in the user's cache directory, if that is usable."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kproxy"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return str(cache) if os.access(cache, os.W_OK | os.X_OK) else None
