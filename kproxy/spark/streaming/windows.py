"""Tracks the current windows of a query, from rows that report changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import Row


class RollingWindows:
    """Keeps the rows of the newest windows by key.

    Args:
        keys: The columns that identify a row within a window.
        window, step: The length of windows, and the interval between their starts.
    """

    def __init__(self, keys: Sequence[str], *, window: timedelta, step: timedelta) -> None:
        self._keys = keys
        self._window, self._step = window, step
        self._rows_by_start: dict[datetime, dict[tuple[object, ...], Row]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add new or changed rows."""
        for row in rows:
            window = self._rows_by_start.setdefault(row["window_start"].astimezone(UTC), {})
            window[tuple(row[key] for key in self._keys)] = row
        if (start := self.start) is not None:
            self._rows_by_start = {
                window_start: rows_by_key
                for window_start, rows_by_key in self._rows_by_start.items()
                if window_start >= start - self._window
            }

    @property
    def start(self) -> datetime | None:
        """The start of the current window: the fullest of those that contain the newest row."""
        return max(self._rows_by_start) + self._step - self._window if self._rows_by_start else None

    def current_rows(self) -> dict[tuple[object, ...], Row]:
        """Return the rows of the current window, by key."""
        return self._rows_by_start.get(self.start, {}) if self.start is not None else {}

    def previous_rows(self) -> dict[tuple[object, ...], Row]:
        """Return the rows of the window that ended when the current one started, by key."""
        return self._rows_by_start.get(self.start - self._window, {}) if self.start is not None else {}
