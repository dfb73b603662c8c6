"""TraceWriter: writes trace lines to files. Files are renamed when they are complete; disk errors do not raise."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import zstandard

from kproxy.io.processes import is_alive
from kproxy.trace.encoding import append_line, encode_line
from kproxy.trace.lines import FORMAT, GapLine, Line
from kproxy.trace.timestamps import timestamp

HOUR = 3600 * 1_000_000_000
#: Bytes of lines per zstd frame, so that a truncated file can be read up to its last complete frame.
ZSTD_CHUNK = 1 << 20
#: Delay after a failed write before the next attempt.
RETRY_NS = 5 * 1_000_000_000


class TraceWriter:
    """Writes ``date=YYYY-MM-DD/hour=HH/kproxy-NODE-PID-SEQ.jsonl`` below a directory.

    A file has a leading dot and ends in ``.part`` while it is written. It is renamed when it is complete: at its
    maximum size, at the end of the hour, or at the end. Files of a killed process are renamed by the next writer in
    that directory. `flush` hands all lines to the system, except the last MiB of a compressed file.

    After the constructor, disk errors never raise: lines are counted as lost, `warn` is called once, and when writing
    works again, a new file begins with a gap line that has the number of lost lines.

    Args:
        directory: Created if need be.
        node: Part of the file names: letters, digits, dots and dashes.
        max_bytes: A file is completed when it reaches this size.
        compress: Write zstd (``.jsonl.zst``).
        lost: Lines that an earlier writer lost and could not report.
        warn: Called with one sentence for the user.

    Raises:
        OSError: The directory cannot be created or written.
    """

    def __init__(
        self,
        directory: Path,
        *,
        node: str,
        max_bytes: int = 128 << 20,
        compress: bool = False,
        lost: int = 0,
        warn: Callable[[str], None],
    ) -> None:
        self.directory = directory
        self.lost = lost
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
        self._failed_at: int | None = None
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(13, "not writable", str(directory))
        _complete_orphans(directory, node)

    @property
    def is_holding(self) -> bool:
        """Some lines are in neither a file nor counted as lost."""
        return bool(self._pending)

    def add(self, line: Line, *, at: int) -> None:
        """Add a line of time `at` (ns). It is written at the next `flush`."""
        self.add_encoded(encode_line(line), at=at)

    def add_encoded(self, line: bytes, *, at: int) -> None:
        """Add a line as `encode_line` returns it."""
        self.tick(at=at)
        self._pending += line
        self._pending_lines += 1
        if len(self._pending) >= ZSTD_CHUNK:
            self.flush(at=at)

    def tick(self, *, at: int) -> None:
        """Advance the time to `at` (ns): complete the file of an hour that has ended."""
        hour = at // HOUR
        if hour != self._hour:
            self.flush(at=at, final=True)
            self._finish()
            self._hour = hour

    def flush(self, *, at: int, final: bool = False) -> None:
        """Write added lines. With `final`, also those that do not fill a zstd frame."""
        if not self._pending or (self._compress and not final and len(self._pending) < ZSTD_CHUNK):
            return
        self._attempt(at)

    def _attempt(self, at: int, *, last: bool = False) -> None:
        """Write added lines, unless that has just failed and this is not the last chance."""
        data = bytes(self._pending)
        lines, self._pending_lines = self._pending_lines, 0
        self._pending.clear()
        failed_at = self._failed_at
        if failed_at is not None and not last and failed_at <= at < failed_at + RETRY_NS:  # a clock may be set back
            self.lost += lines
            return
        try:
            if self._fd < 0:
                self._begin(at)
            if data:
                self._write(data)
        except OSError as error:
            self._fail(error, lines, at)
            return
        self._failed_at = None
        if self._size >= self._max_bytes:
            self._finish()

    def close(self, *, at: int) -> None:
        """Write all remaining lines, and how many were lost, and complete the file."""
        self.tick(at=at)
        if self._pending or self.lost:
            self._attempt(at, last=True)
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
            # There must be no partial line in the middle of a file.
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
        self._failed_at = at
        self._finish()

    def _finish(self) -> None:
        """Close the file and rename it; delete it if it is empty."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):
            os.close(self._fd)
        self._fd = -1
        with contextlib.suppress(OSError):
            if self._size:
                self._part.rename(_final_name(self._part))
            else:
                self._part.unlink()


def _final_name(part: Path) -> Path:
    return part.with_name(part.name.removeprefix(".").removesuffix(".part"))


def _complete_orphans(directory: Path, node: str) -> None:
    """Complete files of this node whose process has ended."""
    for part in directory.glob(f"date=*/hour=*/.kproxy-{node}-*.part"):
        pid = part.name.removeprefix(f".kproxy-{node}-").split("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)) and not _final_name(part).exists():
            with contextlib.suppress(OSError):
                part.rename(_final_name(part))
