"""Timestamps in traces are written and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.trace.timestamps import nanoseconds, timestamp


def test_nanoseconds_are_truncated_to_microseconds() -> None:
    assert timestamp(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456Z"


@given(st.integers(0, 253402300799_999_999_999))
def test_timestamp_parses_back_to_the_microsecond(at: int) -> None:
    assert nanoseconds(timestamp(at)) == at // 1000 * 1000


@pytest.mark.parametrize("at", [10**30, -(10**30)])
def test_time_outside_the_calendar_becomes_the_epoch(at: int) -> None:
    assert timestamp(at) == "1970-01-01T00:00:00.000000Z"


def test_invalid_timestamp_is_rejected() -> None:
    with pytest.raises(ValueError, match="does not match format"):
        nanoseconds("yesterday")
