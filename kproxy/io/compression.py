"""Reads gzip and zstd files, recognizing them by their first bytes."""

from __future__ import annotations

import gzip
import zlib
from typing import Any, BinaryIO, Final, NamedTuple

import zstandard

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: Errors that damaged data raises. A truncated gzip file raises `EOFError`; a truncated zstd file just ends.
DAMAGE: Final = (gzip.BadGzipFile, zlib.error, zstandard.ZstdError)


class Compressed(NamedTuple):
    """A compressed file: its kind, as a word for messages, and a file object with the decompressed bytes."""

    kind: str
    file: Any


def open_compressed(file: BinaryIO, start: bytes) -> Compressed | None:
    """Open a file that begins with `start` (at least four bytes) for decompression; return None if not compressed."""
    if start.startswith(GZIP_MAGIC):
        return Compressed("gzip'd", gzip.GzipFile(fileobj=file))
    if start.startswith(ZSTD_MAGIC):
        return Compressed("zstd", zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
    return None
