"""The hour of a trace, which stands in its path: ``date=2026-11-21/hour=05``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

_FOLDERS = re.compile(r"(?:^|/)date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/")


def hour_of(path: str) -> datetime | None:
    """When the hour began that a path or URI of a trace says; None if it says none."""
    named = _FOLDERS.search(path)
    if named is None:
        return None
    try:
        return datetime.fromisoformat(f"{named[1]}T{named[2]}:00Z")
    except ValueError:  # a 13th month
        return None


def next_hour(read: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    """Of traces that have grown from `read` to `sizes` (bytes by path): how far to read next, an hour at a time.

    Who follows traces of several proxies would else meet a line of one long after those of another that came later.
    """
    grown = {name for name, size in sizes.items() if size > read.get(name, 0)}
    first = min(map(_order, grown), default="")
    end = {name: size if name in grown and _order(name) <= first else read.get(name, 0) for name, size in sizes.items()}
    return {name: size for name, size in sorted(end.items()) if size}


def _order(path: str) -> str:
    """Texts in the order of hours; what says none comes first."""
    named = _FOLDERS.search(path)
    return "T".join(named.groups()) if named is not None else ""
