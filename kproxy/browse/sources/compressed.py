"""Unpacks compressed traces into a spool, step by step; growing files are followed."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from typing import Any, Final

import zstandard

from kproxy.browse.rows.store import Spool
from kproxy.io.compression import GZIP_MAGIC, ZSTD_MAGIC

#: Compressed bytes read at once; zstd can expand them 32,768-fold.
_PIECE: Final = 4096
#: Approximate number of unpacked bytes per step.
_STEP: Final = 4 << 20


def is_compressed(fd: int) -> bool:
    """Whether an open file is gzip or zstd."""
    return os.pread(fd, 4, 0).startswith((GZIP_MAGIC, ZSTD_MAGIC))


class UnpackedFile:
    """A compressed file that is unpacked into `spool`.

    `damage` is a sentence about why the rest is not available, None if there is no problem.

    Args:
        fd: The file's descriptor, closed by `close`.
    """

    def __init__(self, fd: int) -> None:
        self.spool = Spool()
        self.damage: str | None = None
        self._fd = fd
        self._offset = 0
        self._is_gzip = os.pread(fd, 2, 0) == GZIP_MAGIC
        self._stream = self._new_stream()

    @property
    def remaining_bytes(self) -> int:
        """Estimated number of bytes still to unpack, assuming the same compression ratio."""
        unpacked, remaining = self.spool.progress[1], os.fstat(self._fd).st_size - self._offset
        return unpacked * remaining // self._offset if self._offset and self.damage is None else 0

    def step(self) -> bool:
        """Unpack the next part; return whether there was one. Blocks, so call it in a thread."""
        unpacked = 0
        while self.damage is None and unpacked < _STEP:
            if not (data := os.pread(self._fd, _PIECE, self._offset)):
                break
            self._offset += len(data)
            try:
                unpacked += self._unpack(data)
            except (zlib.error, zstandard.ZstdError) as error:
                self.damage = f"compressed data is damaged ({error}); everything before that point was read"
            except OSError as error:
                self.damage = f"no disk space to unpack all of it ({error.strerror})"
        return unpacked > 0

    def _unpack(self, data: bytes) -> int:
        unpacked = 0
        while data:
            if self._stream.eof:  # the next gzip member or zstd frame begins
                self._stream = self._new_stream()
            output = self._stream.decompress(data)
            unpacked += len(output)
            self.spool.append(output)
            data = self._stream.unused_data
        return unpacked

    def _new_stream(self) -> Any:
        return zlib.decompressobj(31) if self._is_gzip else zstandard.ZstdDecompressor().decompressobj()

    def end(self) -> None:
        """Note that the file is complete."""
        if self.damage is None and not self._stream.eof:
            self.damage = "compressed data ends early; everything before that point was read"
        with suppress(OSError):
            self.spool.end()

    def close(self) -> None:
        """Close the file; the spool stays."""
        os.close(self._fd)
