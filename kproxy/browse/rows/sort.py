"""Sorts rows in steps, so that the user interface stays responsive."""

from __future__ import annotations

from array import array
from bisect import bisect
from collections.abc import Callable, Generator, Sequence
from typing import Final

#: Rows processed between two yields, in a few milliseconds.
PART: Final = 4_096
#: Number of low bits that hold the row in a packed key.
_BITS: Final = 48
_ROW: Final = (1 << _BITS) - 1
#: Samples per part for choosing the bounds; more samples make parts more even.
_SAMPLES: Final = 16


def sort_rows(rows: Sequence[int], key: Callable[[int], int]) -> Generator[None, None, array[int]]:
    """Sort rows by key, then by number; yield between steps.

    The bounds of the parts come from a sample; rows are distributed to the parts, and each part is sorted separately.
    """
    packed: list[int] = []
    for start in range(0, len(rows), PART):
        packed += [(key(row) << _BITS) + row for row in rows[start : start + PART]]
        yield
    bounds = sorted(packed[:: PART // _SAMPLES])[_SAMPLES::_SAMPLES]
    parts: list[list[int]] = [[] for _ in range(len(bounds) + 1)]
    for start in range(0, len(packed), PART):
        for value in packed[start : start + PART]:
            parts[bisect(bounds, value)].append(value)
        yield
    sorted_rows = array("Q")
    for part in parts:
        part.sort()
        sorted_rows.extend([value & _ROW for value in part])
        part.clear()
        yield
    return sorted_rows
