"""Reads several stores as one: groups in order, and the lines of a group by time."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from operator import attrgetter
from typing import Final

from kproxy.browse.rows.store import Store

#: A location combines the number of a store with the location in that store (the lower bits).
_SHIFT: Final = 44
_MASK: Final = (1 << _SHIFT) - 1
_TS: Final = b'"ts":"'
_TS_BYTES: Final = 27


class StorePart:
    """One store of a `MergedStore`.

    Args:
        number: Its number.
        store: The store.
        group: The hour that it belongs to; groups are read in order.
        filling: Whether its existing content is still being unpacked, so that later groups must wait for it.
    """

    def __init__(self, number: int, store: Store, group: str, *, filling: bool) -> None:
        self.number = number
        self.store = store
        self.group = group
        self.filling = filling
        self.head: tuple[int, bytes] | None = None
        self.time = b""  # of `head`
        self._lines: Iterator[tuple[int, bytes]] | None = None

    def advance(self) -> None:
        """Go to the next line; `head` is None if there is none yet."""
        if self._lines is None:
            self._lines = self.store.take_new_lines()
        self.head = next(self._lines, None)
        if self.head is None:
            self._lines = None
        else:
            self.time = _timestamp(self.head[1])

    @property
    def is_read(self) -> bool:
        """Whether all lines available so far have been read."""
        read_bytes, total_bytes = self.store.progress
        return read_bytes >= total_bytes and self.head is None and not self.filling

    def take_new_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the new lines, with their locations in the `MergedStore`."""
        number_bits = self.number << _SHIFT
        for location, line in self.store.take_new_lines():
            yield number_bits | location, line


class MergedStore:
    """The lines of many stores.

    The lines of a group that are available when it is read are sorted by time; lines added to its stores later follow.
    """

    first = 0

    def __init__(self) -> None:
        self._parts: list[StorePart] = []
        self._active: list[StorePart] = []
        self._inactive_bytes = 0

    def add(self, store: Store, group: str = "", *, filling: bool = False) -> StorePart:
        """Add a store."""
        part = StorePart(len(self._parts), store, group, filling=filling)
        self._parts.append(part)
        self._active.append(part)
        return part

    def deactivate(self, part: StorePart) -> None:
        """Mark a part as read to its end, with nothing more to come."""
        self._active.remove(part)
        self._inactive_bytes += part.store.progress[0]

    def take_new_lines(self) -> Iterator[tuple[int, bytes]]:
        """See `Store`."""
        by_group = attrgetter("group")
        for _, group in groupby(sorted(self._active, key=by_group), by_group):
            parts = list(group)
            if len(parts) == 1 and parts[0].head is None:
                yield from parts[0].take_new_lines()
            else:
                yield from _merge(parts)
            if any(part.filling for part in parts):
                return

    def read(self, location: int, size: int) -> bytes:
        """See `Store`."""
        return self._parts[location >> _SHIFT].store.read(location & _MASK, size)

    @property
    def progress(self) -> tuple[int, int]:
        """See `Store`."""
        read_bytes = total_bytes = self._inactive_bytes
        for part in self._active:
            progress = part.store.progress
            read_bytes += progress[0]
            total_bytes += progress[1]
        return read_bytes, total_bytes

    def close(self) -> None:
        """See `Store`."""
        for part in self._parts:
            part.store.close()


def _merge(parts: list[StorePart]) -> Iterator[tuple[int, bytes]]:
    """Yield the parts' lines by time, until it would have to wait for a part."""
    for part in parts:
        if part.head is None:
            part.advance()
    if any(part.head is None and part.filling for part in parts):
        return
    heads = [(part.time, part.number, part) for part in parts if part.head is not None]
    heapify(heads)
    while heads:
        _, number, part = heads[0]
        assert part.head is not None
        location, line = part.head
        yield number << _SHIFT | location, line
        part.advance()
        if part.head is not None:
            heapreplace(heads, (part.time, number, part))
        elif part.filling:
            return
        else:
            heappop(heads)


def _timestamp(line: bytes) -> bytes:
    """Return the `ts` of a line, which sorts as text; a line without one sorts first."""
    key_start = line.find(_TS, 0, 100)
    start = key_start + len(_TS)
    return b"" if key_start < 0 else line[start : start + _TS_BYTES]
