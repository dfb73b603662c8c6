"""Percentiles have a limited error compared with sorted lists, and use limited memory."""

from __future__ import annotations

import math
import sys

from hypothesis import given
from hypothesis import strategies as st

from kproxy.counting.percentiles import MAX_DURATION, Histogram

durations = st.one_of(st.integers(0, 100), st.integers(0, 10**7), st.integers(0, MAX_DURATION))


def exact_percentile(values: list[int], quantile: float) -> int:
    return sorted(values)[max(1, math.ceil(quantile * len(values))) - 1]


def build_histogram(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


def test_empty_histogram_has_no_percentiles() -> None:
    assert Histogram().percentiles(0.5, 0.99) == (None, None)


def test_percentiles_of_few_durations_are_exact() -> None:
    assert build_histogram([502_300, 2_000, 501_500]).percentiles(0.5, 0.99) == (501_500, 502_300)
    merged = Histogram.merged([build_histogram([2_000]), build_histogram([501_500, 502_300])])
    assert merged.percentiles(0, 0.5, 0.99) == (2_000, 501_500, 502_300)


@given(st.integers(0, MAX_DURATION), st.integers(1, 500))
def test_percentiles_of_equal_durations_are_that_duration(duration: int, count: int) -> None:
    assert build_histogram([duration] * count).percentiles(0, 0.5, 0.99) == (duration,) * 3


def test_percentiles_of_short_durations_are_exact() -> None:
    assert build_histogram(list(range(64)) * 3).percentiles(0, 0.25, 0.5, 1) == (0, 15, 31, 63)


@given(st.lists(durations, min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 1.0]))
def test_percentile_is_off_by_at_most_one_sixty_fourth(values: list[int], quantile: float) -> None:
    durations_histogram = build_histogram(values)
    [percentile] = durations_histogram.percentiles(quantile)
    assert percentile is not None
    assert abs(percentile - exact_percentile(values, quantile)) <= exact_percentile(values, quantile) / 64
    assert durations_histogram.count == len(values)
    assert durations_histogram.max == max(values)


@given(st.lists(st.lists(durations)))
def test_merged_histogram_equals_a_histogram_of_all_durations(groups: list[list[int]]) -> None:
    merged = Histogram.merged(map(build_histogram, groups))
    expected = build_histogram([value for values in groups for value in values])
    assert merged.percentiles(0.5, 0.95, 0.99) == expected.percentiles(0.5, 0.95, 0.99)
    assert (merged.count, merged.max) == (expected.count, expected.max)


def test_extreme_durations_do_not_grow_the_histogram() -> None:
    extremes = build_histogram([-(2**70), -1, 2**70, MAX_DURATION, *(2**power for power in range(64))])
    assert sys.getsizeof(extremes._counts) < 5200  # 1,152 buckets of 4 bytes, plus the spare capacity of an array
    assert extremes.percentiles(0) == (0,)
    assert extremes.max == 2**70


def test_more_than_four_billion_equal_durations_are_counted() -> None:
    durations_histogram = build_histogram([5] * 200)
    durations_histogram._counts[5] = 2**32 - 1
    durations_histogram.add(5)
    durations_histogram.count = 2**32
    assert durations_histogram.percentiles(0.5) == (5,)
    assert durations_histogram._counts[5] == 2**32
