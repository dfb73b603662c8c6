"""Dicts of limited size and a length limit for names, for state that grows with what peers send."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

#: Longer names are truncated to this many characters: strings of the protocol may have 32,767 bytes, Kafka's names at
#: most 249.
MAX_NAME_LENGTH = 250

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


_set_item = OrderedDict.__setitem__  # faster than `super()`: some items are set for every frame


class BoundedDict(OrderedDict[KeyT, ValueT]):
    """A dict that drops its oldest entry beyond `max_size` entries. Setting or touching an entry makes it newest."""

    def __init__(self, max_size: int) -> None:
        super().__init__()
        self.max_size = max_size

    def __setitem__(self, key: KeyT, value: ValueT) -> None:
        old_size = len(self)
        _set_item(self, key, value)
        if len(self) == old_size:
            self.move_to_end(key)
        elif old_size >= self.max_size:
            self.popitem(last=False)

    def touch(self, key: KeyT, make_value: Callable[[], ValueT]) -> ValueT:
        """Return the value of `key`, created by `make_value` if it is missing, and make it the newest entry."""
        if key in self:
            self.move_to_end(key)
        else:
            self[key] = make_value()
        return self[key]


class EvictionCountingDict(BoundedDict[KeyT, ValueT]):
    """A `BoundedDict` that counts its evicted entries in `evicted`."""

    def __init__(self, max_size: int) -> None:
        super().__init__(max_size)
        self.evicted = 0

    def popitem(self, last: bool = True) -> tuple[KeyT, ValueT]:
        """Evict the newest entry if `last` is true, otherwise the least recently touched one."""
        self.evicted += 1
        return super().popitem(last)


class SizedDict(Generic[KeyT, ValueT]):
    """Entries of a limited total size: beyond `max_size`, the oldest are dropped. Putting a key again replaces it."""

    def __init__(self, max_size: int) -> None:
        self._entries: OrderedDict[KeyT, tuple[ValueT, int]] = OrderedDict()
        self._max_size = max_size
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._entries)

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._size = 0

    def put(self, key: KeyT, value: ValueT, size: int) -> None:
        """Add the newest entry. An entry that alone exceeds `max_size` is not kept."""
        self.pop(key)
        if size > self._max_size:
            return
        self._entries[key] = value, size
        self._size += size
        while self._size > self._max_size:
            self._size -= self._entries.popitem(last=False)[1][1]

    def get(self, key: KeyT) -> ValueT | None:
        """Return the value of a key, None if it is missing."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def pop(self, key: KeyT) -> ValueT | None:
        """Remove an entry and return its value, None if it is missing."""
        if (entry := self._entries.pop(key, None)) is None:
            return None
        self._size -= entry[1]
        return entry[0]
