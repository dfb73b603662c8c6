"""The windows of a query that are looked at now, of rows that say what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import Row


class Rolling:
    """Keeps the rows of the newest windows by their keys.

    Args:
        keys: The columns that tell the rows of a window apart.
        window, step: How long a window is, and how often one begins.
    """

    def __init__(self, keys: Sequence[str], *, window: timedelta, step: timedelta) -> None:
        self._keys = keys
        self._window, self._step = window, step
        self._rows: dict[datetime, dict[tuple[object, ...], Row]] = {}

    def take(self, rows: Iterable[Row]) -> None:
        """Rows that are new, or have changed."""
        for row in rows:
            window = self._rows.setdefault(row["window_start"].astimezone(UTC), {})
            window[tuple(row[key] for key in self._keys)] = row
        if (start := self.start) is not None:
            self._rows = {at: found for at, found in self._rows.items() if at >= start - self._window}

    @property
    def start(self) -> datetime | None:
        """When the window began that is looked at: of those that the newest row is in, the one that is fullest."""
        return max(self._rows) + self._step - self._window if self._rows else None

    def now(self) -> dict[tuple[object, ...], Row]:
        """The rows of that window, by their keys."""
        return self._rows.get(self.start, {}) if self.start is not None else {}

    def before(self) -> dict[tuple[object, ...], Row]:
        """Those of the window that ended when it began."""
        return self._rows.get(self.start - self._window, {}) if self.start is not None else {}
