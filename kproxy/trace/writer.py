"""TraceWriter: trace lines into files that are whole when they have their name, on a disk that may be full."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import zstandard

from kproxy.io.processes import is_alive
from kproxy.trace.clock import timestamp
from kproxy.trace.encoding import append_line, encode_line
from kproxy.trace.lines import FORMAT, GapLine, Line

HOUR = 3600 * 1_000_000_000
#: Compressed output is cut into frames of this many bytes of lines, so that a torn file still reads up to there.
ZSTD_CHUNK = 1 << 20
#: How long the trace rests after a write failed, before the disk is tried again.
RETRY_NS = 5 * 1_000_000_000


class TraceWriter:
    """Writes ``date=YYYY-MM-DD/hour=HH/kproxy-NODE-PID-SEQ.jsonl`` below a directory.

    A file has a leading dot and ends in ``.part`` while it is written, and is renamed when it is whole: by size, when
    the hour ends, at the end. What a killed process left is renamed by the next one on that directory. Lines are
    handed to the system at each `flush`; nothing is held back longer, but for the last MiB of a compressed file.

    A failing disk never raises after the constructor: lines are counted as lost, `warn` is told once, and when
    writing works again a new file begins with a gap line that says how many are missing.

    Args:
        directory: Created if need be.
        node: Part of the file names; letters, digits, dots and dashes.
        max_bytes: A file is closed when it has grown to this size.
        compress: Write zstd (``.jsonl.zst``).
        warn: Takes one sentence for the user.

    Raises:
        OSError: The directory cannot be made or written to.
    """

    def __init__(
        self,
        directory: Path,
        *,
        node: str,
        max_bytes: int = 128 << 20,
        compress: bool = False,
        warn: Callable[[str], None],
    ) -> None:
        self.directory = directory
        self.lost = 0
        self._node = node
        self._max_bytes = max_bytes
        self._compress = compress
        self._suffix = ".jsonl.zst" if compress else ".jsonl"
        self._warn = warn
        self._pending = bytearray()
        self._pending_lines = 0
        self._sequence = 0
        self._fd = -1
        self._part = Path()
        self._hour = -1
        self._size = 0
        self._resume_at = 0
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(13, "not writable", str(directory))
        _adopt_orphans(directory, node)

    @property
    def is_holding(self) -> bool:
        """Some lines are in neither a file nor counted as lost."""
        return bool(self._pending)

    def add(self, line: Line, *, at: int) -> None:
        """Take a line that happened `at` (ns); it is written at the next `flush`."""
        self.add_encoded(encode_line(line), at=at)

    def add_encoded(self, line: bytes, *, at: int) -> None:
        """The same, of a line as `encode_line` gives it."""
        self.tick(at=at)
        self._pending += line
        self._pending_lines += 1
        if len(self._pending) >= ZSTD_CHUNK:
            self.flush(at=at)

    def tick(self, *, at: int) -> None:
        """It is `at` (ns) now: the file of an hour that is over becomes whole, also when nothing happens."""
        hour = at // HOUR
        if hour != self._hour:
            self.flush(at=at, final=True)
            self._finish()
            self._hour = hour

    def flush(self, *, at: int, final: bool = False) -> None:
        """Hand what was added to the system; `final` also the part of a compressed file that is not full."""
        if not self._pending or (self._compress and not final and len(self._pending) < ZSTD_CHUNK):
            return
        data = bytes(self._pending)
        lines, self._pending_lines = self._pending_lines, 0
        self._pending.clear()
        if self._resume_at > at:
            self.lost += lines
            return
        try:
            if self._fd < 0:
                self._begin(at)
            self._write(data)
        except OSError as error:
            self._fail(error, lines, at)
            return
        if self._size >= self._max_bytes:
            self._finish()

    def close(self, *, at: int) -> None:
        """Write what is left and give the file its name."""
        self.flush(at=at, final=True)
        self._finish()

    def _begin(self, at: int) -> None:
        day = timestamp(self._hour * HOUR)[:10]
        folder = self.directory / f"date={day}" / f"hour={self._hour % 24:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            self._sequence += 1
            name = f"kproxy-{self._node}-{os.getpid()}-{self._sequence}{self._suffix}"
            self._part = folder / f".{name}.part"
            if not (folder / name).exists():
                break
        self._fd = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._size = 0
        if self.lost:
            missing = bytearray()
            reason = "the trace could not be written"
            gap = GapLine(v=FORMAT, ts=timestamp(at), connection_id="", direction="both", bytes=0, frames=self.lost,
                          reason=reason)  # fmt: skip
            append_line(gap, missing)
            self._write(bytes(missing))
            self._warn(f"the trace is being written again; {self.lost} lines are missing")
            self.lost = 0

    def _write(self, data: bytes) -> None:
        if self._compress:
            data = zstandard.ZstdCompressor().compress(data)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            # A torn line must not stand in the middle of a file.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def _fail(self, error: OSError, lines: int, at: int) -> None:
        if not self.lost:
            self._warn(
                f"trace stopped: {self.directory}: {error.strerror or error}; traffic is still relayed; lost "
                "lines are counted"
            )
        self.lost += lines
        self._resume_at = at + RETRY_NS
        self._finish()

    def _finish(self) -> None:
        """Close the file and give it its name; an empty one goes."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):
            os.close(self._fd)
        self._fd = -1
        with contextlib.suppress(OSError):
            if self._size:
                self._part.rename(_whole_name(self._part))
            else:
                self._part.unlink()


def _whole_name(part: Path) -> Path:
    return part.with_name(part.name.removeprefix(".").removesuffix(".part"))


def _adopt_orphans(directory: Path, node: str) -> None:
    """Give their names to files of this node whose writer is gone."""
    for part in directory.glob(f"date=*/hour=*/.kproxy-{node}-*.part"):
        pid = part.name.removeprefix(f".kproxy-{node}-").split("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)) and not _whole_name(part).exists():
            with contextlib.suppress(OSError):
                part.rename(_whole_name(part))
