"""A dict of bounded size that keeps what was set or touched last, and counts what it lets go."""

from __future__ import annotations

from typing import TypeVar

from dissectors.bounded import BoundedDict

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Recent(BoundedDict[KeyT, ValueT]):
    """A `BoundedDict` that says how much it has forgotten: `let_go`."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.evicted = 0

    def popitem(self, last: bool = True) -> tuple[KeyT, ValueT]:
        """Forget an entry: the newest, or the one that was touched longest ago."""
        self.evicted += 1
        return super().popitem(last)
