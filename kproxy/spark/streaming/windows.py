"""The current windows of a query, from rows that report changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import Row


class RollingWindows:
    """Keeps the rows of the newest windows by key.

    Args:
        keys: The columns that identify a row within a window.
        window, step: Length of a window, and interval between their starts.
    """

    def __init__(self, keys: Sequence[str], *, window: timedelta, step: timedelta) -> None:
        self._keys = keys
        self._window, self._step = window, step
        self._rows: dict[datetime, dict[tuple[object, ...], Row]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add new or changed rows."""
        for row in rows:
            window = self._rows.setdefault(row["window_start"].astimezone(UTC), {})
            window[tuple(row[key] for key in self._keys)] = row
        if (start := self.start) is not None:
            self._rows = {
                window_start: row for window_start, row in self._rows.items() if window_start >= start - self._window
            }

    @property
    def start(self) -> datetime | None:
        """The start of the current window: of those that contain the newest row, the fullest."""
        return max(self._rows) + self._step - self._window if self._rows else None

    def now(self) -> dict[tuple[object, ...], Row]:
        """The rows of that window, by key."""
        return self._rows.get(self.start, {}) if self.start is not None else {}

    def before(self) -> dict[tuple[object, ...], Row]:
        """The rows of the window that ended when it started."""
        return self._rows.get(self.start - self._window, {}) if self.start is not None else {}
