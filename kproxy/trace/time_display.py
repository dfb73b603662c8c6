"""Formats times for display, in UTC or in the local time zone."""

from __future__ import annotations

import functools
from datetime import UTC, datetime

from kproxy.trace.timestamps import timestamp


class TimeDisplay:
    """Shows the `ts` of lines, and times in ns since the epoch.

    Attributes:
        is_local: Whether to use the time zone of this computer (TZ) instead of UTC.
    """

    def __init__(self, *, is_local: bool = False) -> None:
        self.is_local = is_local
        self._local = functools.lru_cache(maxsize=256)(_local_second)
        self._zone = functools.lru_cache(maxsize=64)(_zone)

    def date_and_time(self, ts: str | int) -> str:
        """Return date and time: ``2026-11-21 03:41:00.123``. The `ts` in a forged trace need not be a time."""
        text = timestamp(ts) if isinstance(ts, int) else ts
        if self.is_local and (local := self._local(text[:19])) is not None:
            return local + text[19:23]
        return f"{text[:10]} {text[11:23]}"

    def labelled(self, ts: str | int) -> str:
        """Return date, time and time zone: ``2026-11-21 03:41:00.123 UTC``."""
        return f"{self.date_and_time(ts)} {self.label(ts)}"

    def day(self, ts: str | int) -> str:
        """Return the date: ``2026-11-21``."""
        return self.date_and_time(ts)[:10]

    def time(self, ts: str | int) -> str:
        """Return the time of day: ``03:41:00.123``."""
        return self.date_and_time(ts)[11:]

    def label(self, ts: str | int) -> str:
        """Return the name of the time zone at this time: ``UTC``, ``EST``."""
        if not self.is_local:
            return "UTC"
        text = timestamp(ts) if isinstance(ts, int) else ts
        return self._zone(text[:13]) or "UTC"


def _local_second(second: str) -> str | None:
    moment = _to_datetime(second)
    return None if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S")


def _zone(hour: str) -> str | None:
    moment = _to_datetime(f"{hour}:00:00")
    return None if moment is None else moment.strftime("%Z")


def _to_datetime(second: str) -> datetime | None:
    try:
        return datetime.fromisoformat(second).replace(tzinfo=UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


UTC_DISPLAY = TimeDisplay()
