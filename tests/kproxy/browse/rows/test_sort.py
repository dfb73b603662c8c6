"""Sorting in parts gives the same result as sorting all rows at once."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.browse.rows.sort import PART, sort_rows


def sort_in_parts(rows: Sequence[int], keys: Sequence[int]) -> tuple[list[int], int]:
    """Return the sorted rows and the number of pauses."""
    steps = sort_rows(rows, lambda row: keys[row - rows[0]])
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return list(done.value), pauses
        pauses += 1


@pytest.mark.slow
@given(st.lists(st.integers(-(1 << 62), 1 << 62), min_size=1, max_size=50), st.integers(0, 1 << 40))
def test_rows_are_sorted_by_arbitrary_keys(keys: list[int], first: int) -> None:
    rows = range(first, first + len(keys))
    assert sort_in_parts(rows, keys)[0] == sorted(rows, key=lambda row: keys[row - first])


@pytest.mark.parametrize("key", [lambda row: 0, lambda row: row * 7919 % 10_007, lambda row: -row, lambda row: row % 3])
@pytest.mark.parametrize("count", [PART, 5 * PART + 17])
def test_sorting_many_rows_pauses(key, count: int) -> None:  # type: ignore[no-untyped-def]
    rows = range(3, 3 + count)
    sorted_rows, pauses = sort_in_parts(rows, [key(row) for row in rows])
    assert sorted_rows == sorted(rows, key=key)
    assert pauses >= 2 * count // PART


def test_sorting_no_rows_returns_no_rows() -> None:
    assert sort_in_parts([], []) == ([], 1)
