"""An append-only file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path


class AppendOnlyFile:
    """An append-only file; each write is complete or absent.

    Args:
        path: The path of the file, which is created if it does not exist.
        levels: Number of parent directories that may be new, and are therefore synced with the file.

    Attributes:
        size: The size in bytes.
    """

    def __init__(self, path: Path, *, levels: int = 1) -> None:
        self.path = path
        self._directories = path.parents[:levels]
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self._fd).st_size
        self._synced_size = -1  # bytes known to be on disk; -1: not even the file name
        self._sync_future: asyncio.Future[None] | None = None
        self._fatal_error: OSError | None = None

    def append(self, data: bytes) -> None:
        """Pass bytes to the operating system.

        Raises:
            OSError: Nothing was written, e.g. the disk is full; or an earlier failure could not be undone.
        """
        if self._fatal_error is not None:
            raise self._fatal_error
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._undo_write(error)
            raise self._with_path(error) from None
        self.size += len(data)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        os.ftruncate(self._fd, size)
        self.size = size

    async def wait_until_synced(self) -> None:
        """Wait until all data appended before the call is on disk; concurrent callers share one fsync.

        Raises:
            OSError: The data may be lost; the file accepts no more.
        """
        target = self.size
        while self._synced_size < target:
            if self._fatal_error is not None:
                raise self._fatal_error
            if self._sync_future is None:
                self._sync_future = self._sync()
            await asyncio.shield(self._sync_future)

    def close(self) -> None:
        """Close the file, but only after an fsync that is in progress."""
        if self._fatal_error is None:
            self._fatal_error = OSError(f"{self.path} is closed")
        if self._sync_future is None:
            os.close(self._fd)
        else:
            self._sync_future.add_done_callback(lambda _: os.close(self._fd))

    def _sync(self) -> asyncio.Future[None]:
        """Start an fsync; return a future that completes once the outcome has been recorded here.

        The future of `run_in_executor` does not work: on newer Pythons it can be complete before `record_outcome` is
        called.
        """
        size = self.size
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[None] = loop.create_future()

        def record_outcome(future: asyncio.Future[None]) -> None:
            self._sync_future = None
            if future.cancelled():
                finished.cancel()
                return
            error = future.exception()
            if error is None:
                self._synced_size = size
            elif isinstance(error, OSError):
                self._fatal_error = self._with_path(error)
            else:
                finished.set_exception(error)
                return
            finished.set_result(None)

        directories = self._directories if self._synced_size < 0 else ()
        loop.run_in_executor(None, _fsync, self._fd, directories).add_done_callback(record_outcome)
        return finished

    def _undo_write(self, error: OSError) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            self._fatal_error = self._with_path(error)

    def _with_path(self, error: OSError) -> OSError:
        return OSError(error.errno, error.strerror, str(self.path))


def sync_directory(path: Path) -> None:
    """Sync the entries of a directory to disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _fsync(fd: int, directories: Iterable[Path]) -> None:
    os.fsync(fd)
    for directory in directories:
        sync_directory(directory)
