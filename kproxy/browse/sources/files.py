"""Trace files: uncompressed ones are read in place, compressed ones through a spool; both may still grow."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kproxy.browse.rows.merged_store import MergedStore, StorePart
from kproxy.browse.rows.store import FileStore
from kproxy.browse.sources.compressed import UnpackedFile, is_compressed
from kproxy.browse.sources.source import Source, SourcePhase
from kproxy.trace.reader import trace_files

#: A file written to within this many seconds may still be growing.
FRESH_S = 10.0
_SCAN_INTERVAL_S = 0.5
#: Searching for files takes at most one part in this many of the time, however many there are.
_SHARE = 20


@dataclass(slots=True)
class _File:
    path: Path
    file: int
    content: FileStore | UnpackedFile
    part: StorePart
    complete: bool = False

    def is_growing(self) -> bool:
        """Whether the file is being written, or was a moment ago; finished files lose their `.part` suffix."""
        if time.time() - os.fstat(self.file).st_mtime < FRESH_S:
            return True
        return self.path.name.endswith(".part") and self.path.exists()


class TraceSource(Source):
    """Trace files, including those in directories, read by hour, and by time within an hour.

    New files are picked up, and growing files are followed. A renamed file keeps its inode, so it is not read twice.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._merged = MergedStore()
        super().__init__(files_name(paths), self._merged)
        self._paths = paths
        self._seen: set[tuple[int, int]] = set()
        self._active: list[_File] = []
        self._unpacked_files: list[UnpackedFile] = []

    async def run(self) -> None:
        """See `Source`."""
        while True:
            began = time.monotonic()
            for path, fd in await asyncio.to_thread(self._open_new_files):
                self._add_file(path, fd)
            elapsed = time.monotonic() - began
            await self._unpack()
            self._update_phase()
            await asyncio.sleep(max(_SCAN_INTERVAL_S, elapsed * _SHARE))

    def _open_new_files(self) -> list[tuple[Path, int]]:
        """Open new files. An empty file is skipped, because its type is not known yet."""
        opened = []
        for path in self._candidates():
            try:
                stat = path.stat()
                if not stat.st_size or (stat.st_dev, stat.st_ino) in self._seen:
                    continue
                opened.append((path, os.open(path, os.O_RDONLY | os.O_CLOEXEC)))
            except FileNotFoundError:
                continue  # it was renamed just now
            except OSError as error:
                self._warn(f"{path}: {error.strerror}")
                continue
            self._seen.add((stat.st_dev, stat.st_ino))
        return opened

    def _candidates(self) -> Iterator[Path]:
        for path in self._paths:
            with suppress(OSError):  # the directory has been deleted meanwhile
                yield from trace_files(path) if path.is_dir() else [path]

    def _add_file(self, path: Path, fd: int) -> None:
        group = "/".join(part for part in path.parts if part.startswith(("date=", "hour=")))
        if is_compressed(fd):
            unpacked_file = UnpackedFile(fd)
            self._active.append(
                _File(path, fd, unpacked_file, self._merged.add(unpacked_file.spool, group, filling=True))
            )
            self._unpacked_files.append(unpacked_file)
        else:
            uncompressed = FileStore(fd)
            self._active.append(_File(path, fd, uncompressed, self._merged.add(uncompressed, group)))

    async def _unpack(self) -> None:
        """Unpack available data, in reading order."""
        for file in sorted(self._active, key=lambda file: file.part.group):
            if isinstance(unpacked_file := file.content, UnpackedFile):
                while await asyncio.to_thread(unpacked_file.step):
                    pass
                file.part.filling = False
                if unpacked_file.damage:
                    self._warn(f"{file.path}: {unpacked_file.damage}")

    def _update_phase(self) -> None:
        """Close finished files and update the phase."""
        any_growing = False
        for file in tuple(self._active):
            if file.is_growing():
                any_growing = True
            elif not file.complete:
                file.complete = True
                file.content.end()
            elif file.path not in self._paths and file.part.is_read:
                self._merged.deactivate(file.part)
                self._active.remove(file)
        read_bytes, total_bytes = self.store.progress
        if any_growing and self.phase is SourcePhase.LIVE:
            return  # new files may appear
        self.phase = (
            SourcePhase.READING if read_bytes < total_bytes else SourcePhase.LIVE if any_growing else SourcePhase.ENDED
        )
        self.sentence = "following" if self.phase is SourcePhase.LIVE else ""

    def _progress(self) -> tuple[int, int]:
        """See `Source`."""
        read_bytes, total_bytes = self.store.progress
        return read_bytes, total_bytes + sum(unpacked_file.remaining_bytes for unpacked_file in self._unpacked_files)

    def _warn(self, sentence: str) -> None:
        if sentence not in self.messages:
            self.messages.append(sentence)

    def close(self) -> None:
        """See `Source`."""
        super().close()
        for unpacked_file in self._unpacked_files:
            unpacked_file.close()


def files_name(paths: Sequence[Path | str]) -> str:
    """Return one name for several files."""
    return Path(paths[0]).resolve().name if len(paths) == 1 else f"{len(paths)} files"
