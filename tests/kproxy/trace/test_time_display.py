"""Times are displayed in UTC and in the local time zone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kproxy.trace.time_display import TimeDisplay
from kproxy.trace.timestamps import nanoseconds


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    ("ts", "utc", "local"),
    [
        ("2026-11-21T03:41:00.123456Z", "2026-11-21 03:41:00.123 UTC", "2026-11-20 22:41:00.123 EST"),
        ("2026-07-01T03:41:00.123456Z", "2026-07-01 03:41:00.123 UTC", "2026-06-30 23:41:00.123 EDT"),
    ],
)
def test_times_are_shown_in_utc_and_local_time(ts: str, utc: str, local: str) -> None:
    for value in (ts, nanoseconds(ts)):
        assert TimeDisplay().labelled(value) == utc
        assert TimeDisplay(is_local=True).labelled(value) == local
        assert TimeDisplay(is_local=True).day(value) == local[:10]
        assert TimeDisplay(is_local=True).time(value) == local[11:23]


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize("ts", ["9999-99-99T00:00:00.000000Z", "0001-01-01T00:00:00.000000Z", "x"])
def test_invalid_time_is_shown_unchanged(ts: str) -> None:
    assert TimeDisplay(is_local=True).date_and_time(ts) == f"{ts[:10]} {ts[11:23]}"
    assert TimeDisplay(is_local=True).label(ts) == "UTC"
