"""Row numbers sorted by time."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable


class RowsByTime:
    """Row numbers sorted by time; rows with equal times are sorted by number.

    Args:
        time: Returns the time of a row, which never changes.
    """

    def __init__(self, time: Callable[[int], int], rows: Iterable[int] = ()) -> None:
        self._time = time
        self.rows = array("Q", rows)

    def _key(self, row: int) -> tuple[int, int]:
        return self._time(row), row

    def add(self, row: int) -> None:
        """Add a row, usually at or near the end."""
        if not self.rows or self._key(self.rows[-1]) <= self._key(row):
            self.rows.append(row)
        else:
            self.rows.insert(self.position(row), row)

    def position(self, row: int) -> int:
        """Return the position of a row, or where it would be inserted."""
        return bisect_left(self.rows, self._key(row), key=self._key)

    def has(self, row: int) -> bool:
        """Whether the row is present."""
        position = self.position(row)
        return position < len(self.rows) and self.rows[position] == row

    def remove(self, row: int) -> None:
        """Remove a row that is present."""
        del self.rows[self.position(row)]

    def forget(self, first: int) -> None:
        """Remove all rows with a number below `first`."""
        self.rows = array("Q", (row for row in self.rows if row >= first))
