"""Converts nanoseconds since the epoch to RFC 3339 and back."""

from __future__ import annotations

import functools
from datetime import UTC, datetime


@functools.lru_cache(maxsize=64)
def _format_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def timestamp(at: int) -> str:
    """Return `at` in UTC, truncated to microseconds: ``2026-11-21T03:41:00.123456Z``.

    Times outside the years 1 to 9999, which only damaged captures have, become the epoch.
    """
    seconds, nanos = divmod(at, 1_000_000_000)
    try:
        return f"{_format_second(seconds)}.{nanos // 1000:06d}Z"
    except (ValueError, OverflowError, OSError):
        return "1970-01-01T00:00:00.000000Z"


def nanoseconds(text: str) -> int:
    """Return the nanoseconds since the epoch of a `timestamp`.

    Raises:
        ValueError: The text is not in this format.
    """
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return int(moment.replace(microsecond=0).timestamp()) * 1_000_000_000 + moment.microsecond * 1000
