"""FileJournal: small tables in one file, one line of JSON per change."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from kproxy.broker.errors import Error, Refused
from kproxy.broker.journal import Value
from kproxy.broker.storage.append_file import AppendOnlyFile, sync_directory

_NAME: Final = "journal.jsonl"
_LOCK: Final = ".lock"
#: Bytes of obsolete lines before the file is rewritten.
_WASTE: Final = 16 << 20

_Line = tuple[str, str, dict[str, Any] | None]


class DataDirectoryError(Exception):
    """Raised if a data directory cannot be used; the message is a sentence for the user."""


class FileJournal:
    """Tables in ``DIR/journal.jsonl``: ``["topics","orders",{...}]``; the last line of a key applies, null deletes it.

    The file is rewritten at the start and whenever it has grown too long, and replaced atomically. An incomplete last
    line is dropped. A lock keeps other processes out of the directory.

    Args:
        directory: Created if it does not exist.
        fsync: Whether `synced` waits for the disk.

    Raises:
        DataDirectoryError: Another process uses it, it is not writable, or a line before the last is invalid.
    """

    def __init__(self, directory: Path, *, fsync: bool) -> None:
        self.directory = directory
        self._fsync = fsync
        self._path = directory / _NAME
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._tables = self._read()
                self._file = self._written_anew()
            except BaseException:
                os.close(self._lock)
                raise
        except BlockingIOError:
            raise DataDirectoryError(f"{directory} is in use by another process") from None
        except OSError as error:
            raise DataDirectoryError(f"{error.filename or directory}: {error.strerror}") from None
        self._unwritten: list[bytes] = []
        self._compact_at = self._file.size + _WASTE

    def entries(self, table: str) -> Iterator[tuple[str, Value]]:
        """Return the entries of a table, by key."""
        return iter(list(self._tables.get(table, {}).items()))

    def put(self, table: str, key: str, value: Value | None) -> None:
        """Store an entry, or delete it if the value is None. A failed write is retried with the next one."""
        stored = self._tables.setdefault(table, {})
        if value is None:
            if stored.pop(key, None) is None:
                return
        else:
            stored[key] = value
        self._unwritten.append(_line(table, key, value))
        self._write()

    async def synced(self) -> None:
        """Return when all entries are with the operating system; with fsync, on disk.

        Raises:
            Refused: KAFKA_STORAGE_ERROR.
        """
        try:
            if self._unwritten and (failed := self._write()) is not None:
                raise failed
            if self._fsync:
                await self._file.synced()
        except OSError as error:
            raise Refused(Error.KAFKA_STORAGE_ERROR, f"{self._path}: {error.strerror}") from None

    def close(self) -> None:
        """Close the file and release the directory."""
        self._write()
        self._file.close()
        os.close(self._lock)

    def _write(self) -> OSError | None:
        """Append pending lines; return the error if that failed."""
        try:
            if self._file.size > self._compact_at:
                old, self._file = self._file, self._written_anew()
                old.close()
                self._unwritten.clear()
                self._compact_at = 2 * self._file.size + _WASTE
            elif self._unwritten:
                self._file.append(b"".join(self._unwritten))
                self._unwritten.clear()
        except OSError as error:
            return error
        return None

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
            stored = tables.setdefault(table, {})
            if value is None:
                stored.pop(key, None)
            else:
                stored[key] = value
        return tables

    def _written_anew(self) -> AppendOnlyFile:
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            for table, stored in self._tables.items():
                file.writelines(_line(table, key, value) for key, value in stored.items())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        sync_directory(self.directory)
        return AppendOnlyFile(self._path)


def _line(table: str, key: str, value: Mapping[str, Any] | None) -> bytes:
    return msgspec.json.encode((table, key, value)) + b"\n"
