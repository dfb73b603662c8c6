"""Compressed files, which are seen by their first bytes: gzip and zstd."""

from __future__ import annotations

import gzip
import zlib
from typing import Any, BinaryIO, Final, NamedTuple

import zstandard

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: What reading them may raise, where they are damaged; an `EOFError` where they end too early (zstd: just ends).
DAMAGE: Final = (gzip.BadGzipFile, zlib.error, zstandard.ZstdError)


class Compressed(NamedTuple):
    """A compressed file: which kind it is of, and what stands in it, by `read` and `read1`."""

    kind: str
    file: Any


def decompress(file: BinaryIO, start: bytes) -> Compressed | None:
    """What an open file is that begins with `start`, four bytes or more; None if it is not compressed."""
    if start.startswith(GZIP_MAGIC):
        return Compressed("gzip'd", gzip.GzipFile(fileobj=file))
    if start.startswith(ZSTD_MAGIC):
        return Compressed("zstd", zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
    return None
