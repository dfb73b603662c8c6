"""Rows in the order of their time."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable


class RowsByTime:
    """Row numbers in the order of their time, equal ones by number.

    Args:
        time: Returns the time of a row. It does not change; rows below `first` have been discarded.
    """

    def __init__(self, time: Callable[[int], int], rows: Iterable[int] = ()) -> None:
        self._time = time
        self.rows = array("Q", rows)

    def _key(self, row: int) -> tuple[int, int]:
        return self._time(row), row

    def add(self, row: int) -> None:
        """Add a row: mostly at the end, or near it."""
        if not self.rows or self._key(self.rows[-1]) <= self._key(row):
            self.rows.append(row)
        else:
            self.rows.insert(self.position(row), row)

    def position(self, row: int) -> int:
        """Return the position of a row, or where it would be."""
        return bisect_left(self.rows, self._key(row), key=self._key)

    def has(self, row: int) -> bool:
        """Whether the row is there."""
        at = self.position(row)
        return at < len(self.rows) and self.rows[at] == row

    def remove(self, row: int) -> None:
        """Remove a row that is there."""
        del self.rows[self.position(row)]

    def forget(self, first: int) -> None:
        """Remove the rows below this number, wherever they are."""
        self.rows = array("Q", (row for row in self.rows if row >= first))
