"""Estimates the size of a command's input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

#: Up to this many bytes of local input, some two million lines, a fast start saves more time than a fast run.
_SHORT = 1 << 30
#: Up to this many bytes of local input, some ten thousand lines, Spark's planning costs more than its work.
_TINY = 4 << 20
#: Bytes of a trace per byte of Parquet, and per byte of a compressed file.
_PARQUET, _COMPRESSED = 20, 10


def is_short(paths: Sequence[str]) -> bool:
    """Return whether all inputs are local and small."""
    return total_size(paths) < _SHORT


def is_tiny(paths: Sequence[str]) -> bool:
    """Return whether all inputs are local and have at most a few thousand lines."""
    return total_size(paths) < _TINY


def total_size(paths: Sequence[str]) -> int:
    """Return the size in bytes that all inputs have as traces; a path that is not local counts as `_SHORT`."""
    files = (file for path in map(Path, paths) for file in (path.rglob("*") if path.is_dir() else (path,)))
    return sum(map(_size, files))


def _size(path: Path) -> int:
    if not path.exists():
        return _SHORT
    factors = {".parquet": _PARQUET, ".gz": _COMPRESSED, ".zst": _COMPRESSED}
    return path.stat().st_size * factors.get(path.suffix, 1)
