"""FileJournal: small tables in one file, a line of JSON for every change."""

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
#: Bytes of changes that the file may have beside the entries that still hold, until it is written anew.
_WASTE: Final = 16 << 20

_Line = tuple[str, str, dict[str, Any] | None]


class Unusable(Exception):
    """A data directory cannot be used; one sentence for the user."""


class FileJournal:
    """Tables in ``DIR/journal.jsonl``: ``["topics","orders",{...}]``, the last line of a key holds, null ends it.

    At the start and whenever it has grown too long it is written anew, and takes the old one's place at once. A last
    line that was cut off is dropped. A lock keeps other processes from the directory.

    Args:
        directory: Made if it is not there.
        fsync: `synced` waits for the disk.

    Raises:
        Unusable: Another process has it, it cannot be written to, or a line before the last is no entry.
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
            raise Unusable(f"{directory} is in use by another process") from None
        except OSError as error:
            raise Unusable(f"{error.filename or directory}: {error.strerror}") from None
        self._unwritten: list[bytes] = []
        self._compact_at = self._file.size + _WASTE

    def entries(self, table: str) -> Iterator[tuple[str, Value]]:
        """What the table has, by key."""
        return iter(list(self._tables.get(table, {}).items()))

    def put(self, table: str, key: str, value: Value | None) -> None:
        """Keep an entry, or with None forget it. A line that cannot be written now is tried again with the next."""
        kept = self._tables.setdefault(table, {})
        if value is None:
            if kept.pop(key, None) is None:
                return
        else:
            kept[key] = value
        self._unwritten.append(_line(table, key, value))
        self._write()

    async def synced(self) -> None:
        """Return when what was put so far is with the operating system; with fsync, on the disk.

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
        """Let another process have the directory."""
        self._write()
        self._file.close()
        os.close(self._lock)

    def _write(self) -> OSError | None:
        """Append what waits for it; the error if that failed."""
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
        lines.pop()  # what follows the last line's end was cut off
        decoder = msgspec.json.Decoder(_Line)
        for number, line in enumerate(lines, 1):
            try:
                table, key, value = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise Unusable(f"{self._path}: line {number} is not an entry") from None
            kept = tables.setdefault(table, {})
            if value is None:
                kept.pop(key, None)
            else:
                kept[key] = value
        return tables

    def _written_anew(self) -> AppendOnlyFile:
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            for table, kept in self._tables.items():
                file.writelines(_line(table, key, value) for key, value in kept.items())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        sync_directory(self.directory)
        return AppendOnlyFile(self._path)


def _line(table: str, key: str, value: Mapping[str, Any] | None) -> bytes:
    return msgspec.json.encode((table, key, value)) + b"\n"
