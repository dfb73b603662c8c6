"""Phrases for stalls: names, durations, severity."""

from __future__ import annotations

from collections.abc import Sequence

from dissectors.groups.model import SECOND, Lane
from dissectors.plain_text import duration

#: Waiting for this time (ns) or longer is an error.
ERROR_AFTER = 10 * SECOND

_MAX_NAMES = 3


def names(lanes: Sequence[Lane]) -> str:
    """List the labels of members: ``shop-a 1f2e, shop-b 9c31 and 4 more``."""
    names_text = ", ".join(lane.label for lane in lanes[:_MAX_NAMES])
    more_count = len(lanes) - _MAX_NAMES
    return f"{names_text} and {more_count} more" if more_count > 0 else names_text


def has_or_have(lanes: Sequence[Lane]) -> str:
    """Return the verb that follows `names`."""
    return "have" if len(lanes) > 1 else "has"


def elapsed(ns: int) -> str:
    """Return a duration (ns) as text."""
    return duration(max(ns, 0) // 1000)


def severity_after(waited_ns: int) -> str:
    """Return the severity of a wait of this duration."""
    return "error" if waited_ns >= ERROR_AFTER else "warning"


def keys(lanes: Sequence[Lane]) -> tuple[str, ...]:
    """Return the keys of lanes."""
    return tuple(lane.key for lane in lanes)
