"""Recurrence: counts repeated events."""

from __future__ import annotations

from collections.abc import Hashable

from dissectors.bounded import BoundedDict

SECOND = 1_000_000_000

_MAX_KEYS = 10_000


class Recurrence:
    """Counts events by key; the count restarts after `within` nanoseconds without the key.

    Define a subclass next to each rule, so that `state` gives each rule its own instance.
    """

    within = 600 * SECOND

    def __init__(self) -> None:
        self._seen: BoundedDict[Hashable, tuple[int, int]] = BoundedDict(_MAX_KEYS)

    def count(self, key: Hashable, at: int) -> int:
        """Count an event and return its count so far."""
        times, last = self._seen.get(key, (0, at))
        times = times + 1 if at - last <= self.within else 1
        self._seen[key] = (times, at)
        return times

    def forget(self, key: Hashable) -> None:
        """Reset the count of a key."""
        self._seen.pop(key, None)
