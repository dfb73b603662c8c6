"""A dict of bounded size that counts evicted entries."""

from __future__ import annotations

from typing import TypeVar

from dissectors.bounded import BoundedDict

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Recent(BoundedDict[KeyT, ValueT]):
    """A `BoundedDict` with the number of evicted entries: `evicted`."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.evicted = 0

    def popitem(self, last: bool = True) -> tuple[KeyT, ValueT]:
        """Evict an entry: the newest, or the least recently touched one."""
        self.evicted += 1
        return super().popitem(last)
