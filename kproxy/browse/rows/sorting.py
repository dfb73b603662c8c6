"""Rows in order, made a part at a time, so that whoever shows them stays awake."""

from __future__ import annotations

from array import array
from bisect import bisect
from collections.abc import Callable, Generator, Sequence
from typing import Final

#: Rows that are looked at between two rests: a few milliseconds.
PART: Final = 4_096
#: Of a key that is joined with its row, the bits of the row.
_BITS: Final = 48
_ROW: Final = (1 << _BITS) - 1
#: Values of a part from which its bounds are guessed: with more, parts are more even.
_SAMPLES: Final = 16


def in_order(rows: Sequence[int], key: Callable[[int], int]) -> Generator[None, None, array[int]]:
    """Sort rows by their keys, equal ones by their numbers; yields where it may rest.

    A sample says where the bounds of parts are; rows are dealt out to these, and each is sorted on its own.
    """
    joined: list[int] = []
    for begin in range(0, len(rows), PART):
        joined += [(key(row) << _BITS) + row for row in rows[begin : begin + PART]]
        yield
    bounds = sorted(joined[:: PART // _SAMPLES])[_SAMPLES::_SAMPLES]
    parts: list[list[int]] = [[] for _ in range(len(bounds) + 1)]
    for begin in range(0, len(joined), PART):
        for value in joined[begin : begin + PART]:
            parts[bisect(bounds, value)].append(value)
        yield
    made = array("Q")
    for part in parts:
        part.sort()
        made.extend([value & _ROW for value in part])
        part.clear()
        yield
    return made
