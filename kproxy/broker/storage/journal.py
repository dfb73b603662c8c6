"""FileJournal: small tables in one file, one line of JSON per change."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.journal import Value
from kproxy.broker.storage.append_file import AppendOnlyFile, sync_directory
from kproxy.broker.storage.private import create_private, make_private

_NAME: Final = "journal.jsonl"
_LOCK: Final = ".lock"
#: Bytes of obsolete lines before the file is rewritten.
_MAX_OBSOLETE_BYTES: Final = 16 << 20
_NEW_SUFFIX: Final = ".new"
#: How many lines are written at a time: that limits the cost of a failed attempt while many are pending.
_CHUNK: Final = 256

_Line = tuple[str, str, dict[str, Any] | None]


class DataDirectoryError(Exception):
    """Raised if a data directory cannot be used; the message can be shown to the user as it is."""


class FileJournal:
    """Tables in ``DIR/journal.jsonl``: ``["topics","orders",{...}]``; a key's last line applies, null deletes the key.

    The file is rewritten at startup and whenever it has grown too long, and replaced atomically. An incomplete last
    line is dropped. A lock keeps other processes out of the directory.

    Args:
        directory: The data directory, which is created if it does not exist.
        fsync: Whether `wait_until_synced` waits for the disk.
        failed: Called with the path and the error of each write that fails.

    Raises:
        DataDirectoryError: Another process uses it, it is not writable, or a line before the last is invalid.
    """

    def __init__(
        self, directory: Path, *, fsync: bool, failed: Callable[[Path, OSError], None] = lambda path, error: None
    ) -> None:
        self.directory = directory
        self.changes = 0
        self._fsync = fsync
        self._report_failure = failed
        self._path = directory / _NAME
        try:
            make_private(directory)
            self._lock_fd = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(self._lock_fd, 0o600)
                fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._tables = self._read()
                self._file = self._rewrite()
            except BaseException:
                os.close(self._lock_fd)
                raise
        except BlockingIOError:
            raise DataDirectoryError(f"{directory} is in use by another process") from None
        except OSError as error:
            raise DataDirectoryError(f"{error.filename or directory}: {error.strerror}") from None
        #: The keys of entries that have not been written to the file; their values are in the tables.
        self._unwritten: dict[tuple[str, str], None] = {}
        self._compact_at_size = self._file.size + _MAX_OBSOLETE_BYTES

    def entries(self, table: str) -> Iterator[tuple[str, Value]]:
        """Return the keys and values of a table's entries."""
        return iter(list(self._tables.get(table, {}).items()))

    @property
    def is_stored(self) -> bool:
        """Whether all entries have been handed to the operating system."""
        return not self._unwritten

    def put(self, table: str, key: str, value: Value | None) -> None:
        """Store an entry, or delete it if the value is None. A failed write is retried with the next one."""
        table_entries = self._tables.setdefault(table, {})
        if value is None:
            if table_entries.pop(key, None) is None:
                return
        else:
            table_entries[key] = value
        self.changes += 1
        self._unwritten[table, key] = None
        if len(self._unwritten) <= _CHUNK:  # more are pending only after failures: `synced` and `catch_up` retry
            self._write()

    async def wait_until_synced(self) -> None:
        """Wait until all entries have been handed to the operating system; with fsync, until they are on disk.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR.
        """
        if (write_error := self._write()) is None and self._fsync:
            try:
                await self._file.wait_until_synced()
            except OSError as error:
                write_error = error
                self._report_failure(self._path, error)
        if write_error is not None:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, f"{self._path}: {write_error.strerror}")

    def catch_up(self) -> bool:
        """Write pending entries; return whether none are left."""
        return self._write() is None

    def close(self) -> None:
        """Close the file and release the directory."""
        self._write()
        self._file.close()
        os.close(self._lock_fd)

    def _write(self) -> OSError | None:
        """Append pending lines; return the error if that failed."""
        if self._file.size > self._compact_at_size:
            self._compact()
        pending = list(self._unwritten)
        for start in range(0, len(pending), _CHUNK):
            chunk = pending[start : start + _CHUNK]
            lines = (_line(table, key, self._tables[table].get(key)) for table, key in chunk)
            try:
                self._file.append(b"".join(lines))
            except OSError as error:
                self._unwritten = dict.fromkeys(pending[start:])
                self._report_failure(self._path, error)
                return error
        self._unwritten.clear()
        return None

    def _compact(self) -> None:
        """Replace the file with one without obsolete lines; if that fails, keep using the old one."""
        try:
            old_file, self._file = self._file, self._rewrite()
        except OSError as error:
            self._compact_at_size = self._file.size + _MAX_OBSOLETE_BYTES
            self._report_failure(self._path, error)
            return
        old_file.close()
        self._unwritten.clear()
        self._compact_at_size = 2 * self._file.size + _MAX_OBSOLETE_BYTES

    def _read(self) -> dict[str, dict[str, Value]]:
        tables: dict[str, dict[str, Value]] = {}
        if not self._path.exists():
            return tables
        lines = self._path.read_bytes().split(b"\n")
        lines.pop()  # an incomplete last line
        decoder = msgspec.json.Decoder(_Line)
        for number, line in enumerate(lines, 1):
            try:
                table, key, value = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise DataDirectoryError(f"{self._path}: line {number} is not an entry") from None
            table_entries = tables.setdefault(table, {})
            if value is None:
                table_entries.pop(key, None)
            else:
                table_entries[key] = value
        return tables

    def _rewrite(self) -> AppendOnlyFile:
        new_path = self._path.with_suffix(_NEW_SUFFIX)
        try:
            with create_private(new_path) as file:
                for table, table_entries in self._tables.items():
                    file.writelines(_line(table, key, value) for key, value in table_entries.items())
                file.flush()
                os.fsync(file.fileno())
            new_path.replace(self._path)
        except OSError:
            new_path.unlink(missing_ok=True)  # it takes up space that the old file needs
            raise
        sync_directory(self.directory)
        return AppendOnlyFile(self._path)


def _line(table: str, key: str, value: Mapping[str, Any] | None) -> bytes:
    return msgspec.json.encode((table, key, value)) + b"\n"
