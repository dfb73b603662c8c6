"""Rates and sparklines are compared with counts over lists of times."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.counting.rates import BUCKETS, MINUTE, SECOND, RateClock, RateSeries

START = 1_800_000_000 * SECOND

#: Times between microseconds and years apart, in any order.
times = st.lists(
    st.one_of(st.integers(0, 10**6), st.integers(0, 90 * SECOND), st.integers(0, 2**60)).map(START.__add__), min_size=1
)


def count_events(clock: RateClock, series: RateSeries, times: list[int]) -> None:
    for at_ns in times:
        clock.move(at_ns)
        series.add()


@given(times)
def test_last_minute_is_counted_by_second(event_times: list[int]) -> None:
    clock = RateClock()
    series = clock.series()
    count_events(clock, series, event_times)
    newest = max(event_times) // SECOND
    expected = tuple(
        sum(event_time // SECOND == second for event_time in event_times)
        for second in range(newest - MINUTE + 1, newest + 1)
    )
    # Events more than a minute before the latest one do not count, regardless of their order.
    assert clock.minute(series, now=max(event_times)) == expected


@pytest.mark.slow
@given(times)
def test_all_time_is_counted_in_equal_buckets(event_times: list[int]) -> None:
    clock = RateClock()
    series = clock.series()
    count_events(clock, series, event_times)
    buckets = [event_time // clock.width for event_time in event_times]
    assert clock.all_time(series) == tuple(map(buckets.count, range(min(buckets), max(buckets) + 1)))
    assert max(buckets) - min(buckets) < BUCKETS
    narrower_width = clock.width // 2
    assert (
        clock.width == SECOND // 1000
        or max(event_times) // narrower_width - min(event_times) // narrower_width >= BUCKETS
    )


@given(times, times)
def test_several_series_are_summed_on_one_time_axis(first_times: list[int], second_times: list[int]) -> None:
    clock = RateClock()
    first, second = clock.series(), clock.series()
    for pair in itertools.zip_longest(first_times, second_times):
        for series, at in zip((first, second), pair, strict=True):
            if at is not None:
                count_events(clock, series, [at])
    joint_clock = RateClock()
    series = joint_clock.series()
    count_events(joint_clock, series, [*first_times, *second_times])
    now = max(first_times + second_times)
    assert clock.all_time(first, second) == joint_clock.all_time(series)
    assert clock.minute(first, second, now=now) == joint_clock.minute(series, now=now)


def rate_at(clock: RateClock, series: RateSeries, now: int) -> float:
    return clock.rate(clock.minute(series, now=now), now)


def test_rate_is_the_mean_of_the_last_ten_seconds() -> None:
    clock = RateClock()
    series = clock.series()
    count_events(clock, series, [START + number * SECOND // 100 for number in range(6000)])
    now = START + 60 * SECOND - 1
    assert round(rate_at(clock, series, now), 3) == 100
    assert round(rate_at(clock, series, now + 5 * SECOND), 3) == 50
    assert rate_at(clock, series, now + 10 * SECOND) == 0
    assert clock.minute(series, now=now) == (100,) * 60
    assert sum(clock.minute(series, now=now + 90 * SECOND)) == 0


def test_rate_of_a_new_series_covers_only_its_own_duration() -> None:
    clock = RateClock()
    series = clock.series()
    count_events(clock, series, [START, START, START + SECOND // 2])
    assert rate_at(clock, series, START + SECOND // 2) == 3
    assert rate_at(clock, series, START + 2 * SECOND) == 1.5


def test_times_in_descending_order_rarely_widen_the_axis() -> None:
    clock = RateClock()
    series = clock.series()
    widened: list[int] = []
    clock._widen = lambda at, widen=clock._widen: (widened.append(at), widen(at))[1]  # type: ignore[method-assign]
    count_events(clock, series, [START - number * SECOND for number in range(5000)])
    assert len(widened) < 50
    assert sum(clock.all_time(series)) == 5000


def test_invalid_time_does_not_stretch_the_axis() -> None:
    clock = RateClock()
    series = clock.series()
    count_events(clock, series, [0, START, 0, START + 1])
    assert clock.all_time(series) == (4,)
    assert clock.width == SECOND // 1000


def test_series_without_events_has_a_rate_of_zero() -> None:
    clock = RateClock()
    assert clock.all_time(clock.series()) == (0,)
    assert sum(clock.minute(clock.series(), now=START)) == 0
    assert rate_at(clock, clock.series(), now=START) == 0
