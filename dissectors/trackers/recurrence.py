"""Recurrence: how often something came again, for rules that speak of "again and again"."""

from __future__ import annotations

from collections.abc import Hashable

from dissectors.bounded import BoundedDict

SECOND = 1_000_000_000

_MOST_KEYS = 10_000


class Recurrence:
    """Counts what has a key, from one again once it was not seen for `within` nanoseconds.

    Subclass it beside the rule, so that `state` gives that rule its own.
    """

    within = 600 * SECOND

    def __init__(self) -> None:
        self._seen: BoundedDict[Hashable, tuple[int, int]] = BoundedDict(_MOST_KEYS)

    def count(self, key: Hashable, at: int) -> int:
        """Once more; how often by now."""
        times, last = self._seen.get(key, (0, at))
        times = times + 1 if at - last <= self.within else 1
        self._seen[key] = (times, at)
        return times

    def forget(self, key: Hashable) -> None:
        """It went well: count from one again."""
        self._seen.pop(key, None)
