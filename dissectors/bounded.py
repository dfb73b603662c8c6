"""A dict of limited size, for what grows with the bytes that peers send."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class BoundedDict(OrderedDict[KeyT, ValueT]):
    """A dict that forgets what was set or touched longest ago when it holds more than `most`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: KeyT, value: ValueT) -> None:
        before = len(self)
        super().__setitem__(key, value)
        if len(self) == before:
            self.move_to_end(key)
        elif before >= self.most:
            self.popitem(last=False)

    def touch(self, key: KeyT, make: Callable[[], ValueT]) -> ValueT:
        """The value of `key`, made if there is none, as the newest."""
        if key in self:
            self.move_to_end(key)
        else:
            self[key] = make()
        return self[key]
