"""Rates and sparklines, held to counting over lists of times."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kproxy.counting.rates import BUCKETS, MINUTE, SECOND, RateClock, RateSeries

START = 1_800_000_000 * SECOND

#: From microseconds to years apart, in any order.
times = st.lists(
    st.one_of(st.integers(0, 10**6), st.integers(0, 90 * SECOND), st.integers(0, 2**60)).map(START.__add__), min_size=1
)


def counted(clock: RateClock, series: RateSeries, at: list[int]) -> None:
    for each in at:
        clock.move(each)
        series.add()


@given(times)
def test_the_last_minute_is_counted_by_second(at: list[int]) -> None:
    clock = RateClock()
    series = clock.series()
    counted(clock, series, at)
    newest = max(at) // SECOND
    expected = tuple(sum(each // SECOND == second for each in at) for second in range(newest - MINUTE + 1, newest + 1))
    # What came more than a minute before the latest is left out, in whatever order it came.
    assert clock.minute(series, now=max(at)) == expected


@given(times)
def test_all_time_is_counted_in_equal_buckets(at: list[int]) -> None:
    clock = RateClock()
    series = clock.series()
    counted(clock, series, at)
    numbers = [each // clock.width for each in at]
    assert clock.all_time(series) == tuple(map(numbers.count, range(min(numbers), max(numbers) + 1)))
    assert max(numbers) - min(numbers) < BUCKETS
    narrower = clock.width // 2
    assert clock.width == SECOND // 1000 or max(at) // narrower - min(at) // narrower >= BUCKETS


@given(times, times)
def test_several_series_are_summed_and_have_one_axis(one: list[int], other: list[int]) -> None:
    clock = RateClock()
    first, second = clock.series(), clock.series()
    for pair in itertools.zip_longest(one, other):
        for series, at in zip((first, second), pair, strict=True):
            if at is not None:
                counted(clock, series, [at])
    both = RateClock()
    series = both.series()
    counted(both, series, [*one, *other])
    now = max(one + other)
    assert clock.all_time(first, second) == both.all_time(series)
    assert clock.minute(first, second, now=now) == both.minute(series, now=now)


def rate(clock: RateClock, series: RateSeries, now: int) -> float:
    return clock.rate(clock.minute(series, now=now), now)


def test_a_rate_is_the_mean_of_the_last_ten_seconds() -> None:
    clock = RateClock()
    series = clock.series()
    counted(clock, series, [START + number * SECOND // 100 for number in range(6000)])
    now = START + 60 * SECOND - 1
    assert round(rate(clock, series, now), 3) == 100
    assert round(rate(clock, series, now + 5 * SECOND), 3) == 50
    assert rate(clock, series, now + 10 * SECOND) == 0
    assert clock.minute(series, now=now) == (100,) * 60
    assert sum(clock.minute(series, now=now + 90 * SECOND)) == 0


def test_a_rate_of_what_began_just_now() -> None:
    clock = RateClock()
    series = clock.series()
    counted(clock, series, [START, START, START + SECOND // 2])
    assert rate(clock, series, START + SECOND // 2) == 3
    assert rate(clock, series, START + 2 * SECOND) == 1.5


def test_times_that_run_backwards_make_room_at_once() -> None:
    clock = RateClock()
    series = clock.series()
    widened: list[int] = []
    clock._widen = lambda at, widen=clock._widen: (widened.append(at), widen(at))[1]  # type: ignore[method-assign]
    counted(clock, series, [START - number * SECOND for number in range(5000)])
    assert len(widened) < 50
    assert sum(clock.all_time(series)) == 5000


def test_a_time_that_is_none_does_not_stretch_the_axis() -> None:
    clock = RateClock()
    series = clock.series()
    counted(clock, series, [0, START, 0, START + 1])
    assert clock.all_time(series) == (4,)
    assert clock.width == SECOND // 1000


def test_nothing_has_happened() -> None:
    clock = RateClock()
    assert clock.all_time(clock.series()) == (0,)
    assert sum(clock.minute(clock.series(), now=START)) == 0
    assert rate(clock, clock.series(), now=START) == 0
