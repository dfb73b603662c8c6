"""Sorting in parts: the same as sorting at once, whatever the keys and their number."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.browse.rows.sort import PART, in_order


def sorted_in_parts(rows: Sequence[int], keys: Sequence[int]) -> tuple[list[int], int]:
    """The rows, and how often there was a rest."""
    parts = in_order(rows, lambda row: keys[row - rows[0]])
    rests = 0
    while True:
        try:
            next(parts)
        except StopIteration as done:
            return list(done.value), rests
        rests += 1


@given(st.lists(st.integers(-(1 << 62), 1 << 62), min_size=1, max_size=50), st.integers(0, 1 << 40))
def test_any_keys(keys: list[int], first: int) -> None:
    rows = range(first, first + len(keys))
    assert sorted_in_parts(rows, keys)[0] == sorted(rows, key=lambda row: keys[row - first])


@pytest.mark.parametrize("key", [lambda row: 0, lambda row: row * 7919 % 10_007, lambda row: -row, lambda row: row % 3])
@pytest.mark.parametrize("count", [PART, 5 * PART + 17])
def test_many_rows_with_rests_between(key, count: int) -> None:  # type: ignore[no-untyped-def]
    rows = range(3, 3 + count)
    made, rests = sorted_in_parts(rows, [key(row) for row in rows])
    assert made == sorted(rows, key=key)
    assert rests >= 2 * count // PART


def test_no_rows() -> None:
    assert sorted_in_parts([], []) == ([], 1)
