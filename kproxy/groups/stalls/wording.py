"""Words for what stands still."""

from __future__ import annotations

from collections.abc import Sequence

from kproxy.groups.model import SECOND, Lane
from kproxy.trace.formatting import duration

#: From here on (ns) waiting is an error.
LONG = 10 * SECOND

_MOST_NAMES = 3


def names(lanes: Sequence[Lane]) -> str:
    """``shop-a 1f2e, shop-b 9c31 and 4 more``."""
    shown = ", ".join(lane.label for lane in lanes[:_MOST_NAMES])
    more = len(lanes) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def have(lanes: Sequence[Lane]) -> str:
    """The verb to their names."""
    return "have" if len(lanes) > 1 else "has"


def ago(ns: int) -> str:
    """A time that has passed, in words."""
    return duration(max(ns, 0) // 1000)


def severe(waited: int) -> str:
    """The severity of waiting for so long (ns)."""
    return "error" if waited >= LONG else "warning"


def keys(lanes: Sequence[Lane]) -> tuple[str, ...]:
    """Their keys."""
    return tuple(lane.key for lane in lanes)
