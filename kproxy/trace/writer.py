"""TraceWriter: writes trace lines to files. Files are renamed when they are complete; disk errors do not raise."""

# Rule 1: files have only whole lines. After a failed write, a new file begins, without a partial line in the old one.
#
# Rule 2: a line is either in a file, or counted in `lost` and later in a gap line, never both.
#
# Rule 3: a file without a leading dot is complete and does not change.

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import zstandard

from kproxy.io.processes import is_alive
from kproxy.trace.encoding import append_line, encode_line
from kproxy.trace.lines import FORMAT, GapLine, Line
from kproxy.trace.state import TraceState
from kproxy.trace.timestamps import timestamp

HOUR = 3600 * 1_000_000_000
#: Bytes of lines per zstd frame, so that a truncated file can be read up to its last complete frame.
ZSTD_CHUNK = 1 << 20
#: Delay after a failed write before the next attempt.
RETRY_NS = 5 * 1_000_000_000
#: How often the writer checks that its file is still in its place, because lines in a deleted file are lost.
CHECK_NS = 100_000_000


class TraceWriter:
    """Writes ``date=YYYY-MM-DD/hour=HH/kproxy-NODE-PID-SEQ.jsonl`` in a directory.

    The name of a file has a leading dot and ends in ``.part`` while it is written. The file is renamed when it is
    complete: at its maximum size, at the end of the hour, or at the end of the trace. The next writer in the directory
    renames the files of a killed process. `flush` passes all lines to the system, except the last MiB of a compressed
    file.

    Disk errors never raise: lines are counted as lost, `warn` is called once, and when writing works again, a new file
    begins with a gap line that has the number of lost lines. The same happens if the file that is being written is
    deleted, alone or with its directory, which is created again. A file that was moved is completed in its new place.

    Attributes:
        lost: The number of missing lines that are not in a gap line.
        is_written: Whether some lines of this writer are in a file.
        moved_to: Directories to which files were moved while they were being written.

    Args:
        directory: The directory, which is created if necessary.
        node: The part of the file names for the node: letters, digits, dots and dashes.
        max_bytes: The size at which a file is completed.
        compress: Whether to write zstd (``.jsonl.zst``).
        lost: The number of lines that an earlier writer lost and could not report.
        state: Receives the number of lost lines and the current failure.
        warn: Called with one sentence for the user.
    """

    def __init__(
        self,
        directory: Path,
        *,
        node: str,
        max_bytes: int = 128 << 20,
        compress: bool = False,
        lost: int = 0,
        state: TraceState | None = None,
        warn: Callable[[str], None],
    ) -> None:
        self.directory = directory
        self.lost = lost
        self.is_written = False
        self.moved_to: list[Path] = []
        self._state = TraceState() if state is None else state
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
        self._lines = 0  # of the open file
        self._reported_lost = 0  # lost lines in the gap line of the open file
        self._checked_at: int | None = None
        self._failed_at: int | None = None
        self._interrupted = lost > 0  # and the user does not know yet that the trace continues
        self._state.failure = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if not os.access(directory, os.W_OK | os.X_OK):
                raise PermissionError(13, "no permission to write", str(directory))
            _complete_orphaned_files(directory, node)
        except OSError as error:
            self._fail(error, 0, None)

    @property
    def is_holding(self) -> bool:
        """Whether some lines are neither in a file nor counted as lost."""
        return bool(self._pending)

    def add(self, line: Line, *, at: int) -> None:
        """Add a line with time `at` (ns). It is written at the next `flush`."""
        self.add_encoded(encode_line(line), at=at)

    def add_encoded(self, line: bytes, *, at: int) -> None:
        """Add a line that was encoded with `encode_line`."""
        self.tick(at=at)
        self._pending += line
        self._pending_lines += 1
        if len(self._pending) >= ZSTD_CHUNK:
            self.flush(at=at)

    def tick(self, *, at: int) -> None:
        """Advance the time to `at` (ns), and complete the file if its hour has ended."""
        hour = at // HOUR
        if hour != self._hour:
            self.flush(at=at, final=True)
            self._finish()
            self._hour = hour

    def flush(self, *, at: int, final: bool = False) -> None:
        """Write the added lines; with `final`, even if they do not fill a zstd frame."""
        self._check_file(at)
        if not self._pending or (self._compress and not final and len(self._pending) < ZSTD_CHUNK):
            return
        self._attempt(at)

    def _check_file(self, at: int) -> None:
        """From time to time, check whether the file was deleted or moved, and try to report lost lines."""
        checked_at = self._checked_at
        if checked_at is not None and checked_at <= at < checked_at + CHECK_NS:
            return
        self._checked_at = at
        self._leave_lost_file()
        if self._hour >= 0 and (self._state.failure is not None or (self.lost and self._fd < 0)):
            self._attempt(at)

    def _leave_lost_file(self) -> None:
        if self._fd >= 0 and not _is_file(self._part, self._fd):
            self._finish()

    def _attempt(self, at: int, *, last: bool = False) -> None:
        """Write the added lines, unless that has just failed and this is not the last chance."""
        data = bytes(self._pending)
        lines, self._pending_lines = self._pending_lines, 0
        self._pending.clear()
        failed_at = self._failed_at
        if failed_at is not None and not last and failed_at <= at < failed_at + RETRY_NS:  # a clock may be set back
            self._lose(lines)
            return
        missing_count = self.lost
        try:
            if self._fd < 0:
                self._begin(at)
            if data:
                self._write(data)
        except OSError as error:
            self._fail(error, lines, at)
            return
        self._lines += lines
        self._failed_at = None
        self._state.failure = None
        if self._interrupted:
            self._interrupted = False
            missing_text = "1 line is missing" if missing_count == 1 else f"{missing_count} lines are missing"
            self._warn(f"the trace is being written again; {missing_text}")
        if self._size >= self._max_bytes:
            self._finish()

    def close(self, *, at: int) -> None:
        """Write all remaining lines and the number of lost ones, and complete the file."""
        self.tick(at=at)
        self._leave_lost_file()
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
        self._size = self._lines = self._reported_lost = 0
        if self.lost:
            gap_line = bytearray()
            reason = "the trace could not be written"
            gap = GapLine(v=FORMAT, ts=timestamp(at), connection_id="", direction="both", bytes=0, frames=self.lost,
                          reason=reason)  # fmt: skip
            append_line(gap, gap_line)
            self._write(bytes(gap_line))
            self._reported_lost, self.lost = self.lost, 0

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

    def _fail(self, error: OSError, lines: int, at: int | None) -> None:
        """Count these lines, which were to be written at time `at` (ns), as lost because of an error."""
        reason = error.strerror or str(error)
        if self._state.failure is None:
            self._warn(
                f"trace stopped: {self.directory}: {reason}; traffic is still relayed; lost lines are counted, and "
                f"kproxy tries again every {RETRY_NS // 1_000_000_000} s"
            )
        self._state.failure = reason
        self._interrupted = True
        self._lose(lines)
        self._failed_at = at
        self._finish()

    def _lose(self, lines: int) -> None:
        self.lost += lines
        self._state.add_lost(lines)

    def _finish(self) -> None:
        """Close the file and rename it; delete it if it is empty."""
        if self._fd < 0:
            return
        part, name = self._part, _final_name(self._part).name
        path: Path | None = part
        if not _is_file(part, self._fd):
            path = _path_of(self._fd)
            if path is None:
                self._count_deleted_lines()
            else:
                self._warn(f"the trace file {part} was moved to {path}; the trace continues in {self.directory}")
                self.moved_to.append(path.parent)
                name = name if path.name == part.name else path.name
        fd, self._fd = self._fd, -1
        try:
            os.close(fd)
        except OSError as error:  # with quotas or on a network file system: it is unknown which lines the file has
            self._fail(error, self._lines, None)
        if path is not None:
            self._complete(path, name)

    def _complete(self, path: Path, name: str) -> None:
        """Give a closed file its final name."""
        try:
            if self._size:
                self.is_written = True
                path.rename(path.with_name(name))
            else:
                path.unlink()
        except OSError as error:
            self._warn(f"the trace file {path} keeps this name: {error.strerror}; kproxy can read it")

    def _count_deleted_lines(self) -> None:
        """Count the lines in the open file, which was deleted, as lost."""
        self._warn(
            f"the trace file {self._part} was deleted: {self._lines} lines are lost; the trace continues in "
            f"{self.directory}, in a new file"
        )
        self.lost += self._reported_lost  # the gap line in that file reported them
        self._lose(self._lines)


def _final_name(part: Path) -> Path:
    return part.with_name(part.name.removeprefix(".").removesuffix(".part"))


def _is_file(path: Path, fd: int) -> bool:
    """Whether the open file is at this path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # no permission to look, or the disk fails: the file need not be gone
        return True


def _path_of(fd: int) -> Path | None:
    """Return the path of an open file; None if it was deleted."""
    with contextlib.suppress(OSError):
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if _is_file(path, fd):
            return path
    return None


def _complete_orphaned_files(directory: Path, node: str) -> None:
    """Complete the files of this node whose processes have ended."""
    for part in directory.glob(f"date=*/hour=*/.kproxy-{node}-*.part"):
        pid = part.name.removeprefix(f".kproxy-{node}-").split("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)) and not _final_name(part).exists():
            with contextlib.suppress(OSError):
                part.rename(_final_name(part))
