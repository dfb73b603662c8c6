"""The size of the input of a command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

#: Up to this many bytes of local input, some two million lines, a fast start saves more time than a fast run.
_SHORT = 1 << 30
#: Up to this many bytes of local input, some ten thousand lines, Spark's planning costs more than its work.
_TINY = 4 << 20
#: Bytes of a trace per byte of Parquet, and of a compressed file.
_PARQUET, _COMPRESSED = 20, 10


def is_short(paths: Sequence[str]) -> bool:
    """Whether all inputs are local and small."""
    return total_size(paths) < _SHORT


def is_tiny(paths: Sequence[str]) -> bool:
    """Whether all inputs are local and have a few thousand lines at most."""
    return total_size(paths) < _TINY


def total_size(paths: Sequence[str]) -> int:
    """Return the size of all inputs as traces, in bytes; `_SHORT` for each path that is not a local one."""
    paths_found = (file for path in map(Path, paths) for file in (path.rglob("*") if path.is_dir() else (path,)))
    return sum(map(_size, paths_found))


def _size(path: Path) -> int:
    if not path.exists():
        return _SHORT
    factors = {".parquet": _PARQUET, ".gz": _COMPRESSED, ".zst": _COMPRESSED}
    return path.stat().st_size * factors.get(path.suffix, 1)
