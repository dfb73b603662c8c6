"""Percentiles: how far off they are, held to sorted lists; what they cost in memory."""

from __future__ import annotations

import math
import sys

from hypothesis import given
from hypothesis import strategies as st

from kproxy.counting.percentiles import MAX_DURATION, Histogram

durations = st.one_of(st.integers(0, 100), st.integers(0, 10**7), st.integers(0, MAX_DURATION))


def exact(values: list[int], share: float) -> int:
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def histogram(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


def test_nothing_has_no_percentiles() -> None:
    assert Histogram().percentiles(0.5, 0.99) == (None, None)


def test_few_durations_are_exact() -> None:
    assert histogram([502_300, 2_000, 501_500]).percentiles(0.5, 0.99) == (501_500, 502_300)
    both = Histogram.merged([histogram([2_000]), histogram([501_500, 502_300])])
    assert both.percentiles(0, 0.5, 0.99) == (2_000, 501_500, 502_300)


@given(st.integers(0, MAX_DURATION), st.integers(1, 500))
def test_a_percentile_is_within_what_was_counted(duration: int, count: int) -> None:
    assert histogram([duration] * count).percentiles(0, 0.5, 0.99) == (duration,) * 3


def test_short_durations_are_exact() -> None:
    assert histogram(list(range(64)) * 3).percentiles(0, 0.25, 0.5, 1) == (0, 15, 31, 63)


@given(st.lists(durations, min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 1.0]))
def test_a_percentile_is_off_by_a_sixty_fourth_at_most(values: list[int], share: float) -> None:
    counted = histogram(values)
    [percentile] = counted.percentiles(share)
    assert percentile is not None
    assert abs(percentile - exact(values, share)) <= exact(values, share) / 64
    assert counted.count == len(values)
    assert counted.max == max(values)


@given(st.lists(st.lists(durations)))
def test_merged_is_as_if_counted_together(several: list[list[int]]) -> None:
    merged = Histogram.merged(map(histogram, several))
    together = histogram([value for values in several for value in values])
    assert merged.percentiles(0.5, 0.95, 0.99) == together.percentiles(0.5, 0.95, 0.99)
    assert (merged.count, merged.max) == (together.count, together.max)


def test_the_smallest_and_the_longest_of_all_do_not_grow_it() -> None:
    counted = histogram([-(2**70), -1, 2**70, MAX_DURATION, *(2**power for power in range(64))])
    assert sys.getsizeof(counted._counts) < 5200  # 1,152 buckets of 4 bytes, and what an array keeps free behind them
    assert counted.percentiles(0) == (0,)
    assert counted.max == 2**70


def test_more_than_four_thousand_million_of_one_duration() -> None:
    counted = histogram([5] * 200)
    counted._counts[5] = 2**32 - 1
    counted.add(5)
    counted.count = 2**32
    assert counted.percentiles(0.5) == (5,)
    assert counted._counts[5] == 2**32
