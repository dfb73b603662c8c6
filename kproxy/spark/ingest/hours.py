"""The hour of a trace, from its path: ``date=2026-11-21/hour=05``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

_FOLDERS = re.compile(r"(?:^|/)date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/")


def hour_of(path: str) -> datetime | None:
    """Return the start of the hour in the path or URI of a trace; None if the path has no hour."""
    match = _FOLDERS.search(path)
    if match is None:
        return None
    try:
        return datetime.fromisoformat(f"{match[1]}T{match[2]}:00Z")
    except ValueError:  # an invalid date
        return None


def next_hour(read_sizes: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return how far to read next, one hour at a time, in traces grown from `read_sizes` to `sizes` (bytes by path).

    Otherwise, when traces of several proxies are followed, lines of one would come long after later lines of another.
    """
    grown_paths = {path for path, size in sizes.items() if size > read_sizes.get(path, 0)}
    first_hour = min(map(_sort_key, grown_paths), default="")
    ends = {
        path: size if path in grown_paths and _sort_key(path) <= first_hour else read_sizes.get(path, 0)
        for path, size in sizes.items()
    }
    return {path: size for path, size in sorted(ends.items()) if size}


def _sort_key(path: str) -> str:
    """Return a key that sorts paths by hour; paths without an hour come first."""
    match = _FOLDERS.search(path)
    return "T".join(match.groups()) if match is not None else ""
