"""BoundedDict: a dict of limited size, for state that grows with what peers send."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class BoundedDict(OrderedDict[KeyT, ValueT]):
    """A dict that drops its oldest entry beyond `max_size` entries. Setting or touching an entry makes it newest."""

    def __init__(self, max_size: int) -> None:
        super().__init__()
        self.max_size = max_size

    def __setitem__(self, key: KeyT, value: ValueT) -> None:
        before = len(self)
        super().__setitem__(key, value)
        if len(self) == before:
            self.move_to_end(key)
        elif before >= self.max_size:
            self.popitem(last=False)

    def touch(self, key: KeyT, make: Callable[[], ValueT]) -> ValueT:
        """Return the value of `key`, from `make` if it is missing, and make it the newest entry."""
        if key in self:
            self.move_to_end(key)
        else:
            self[key] = make()
        return self[key]
