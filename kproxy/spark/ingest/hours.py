"""The hour of a trace, from its path: ``date=2026-11-21/hour=05``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

_FOLDERS = re.compile(r"(?:^|/)date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/")


def hour_of(path: str) -> datetime | None:
    """Return the start of the hour in the path or URI of a trace; None if it has none."""
    named = _FOLDERS.search(path)
    if named is None:
        return None
    try:
        return datetime.fromisoformat(f"{named[1]}T{named[2]}:00Z")
    except ValueError:  # an invalid date
        return None


def next_hour(read: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return how far to read next, one hour at a time, in traces grown from `read` to `sizes` (bytes by path).

    Otherwise, when following traces of several proxies, lines of one would come long after later lines of another.
    """
    grown = {name for name, size in sizes.items() if size > read.get(name, 0)}
    first = min(map(_order, grown), default="")
    end = {name: size if name in grown and _order(name) <= first else read.get(name, 0) for name, size in sizes.items()}
    return {name: size for name, size in sorted(end.items()) if size}


def _order(path: str) -> str:
    """Sort key for hours; paths without one come first."""
    named = _FOLDERS.search(path)
    return "T".join(named.groups()) if named is not None else ""
