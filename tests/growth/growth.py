"""Measure how much faster the work for a frame grows than the frame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dissectors.diagnosis import payloads, search
from tests.growth.frames import GrowingFrame
from tests.growth.work import count_lines, explain_exchange, inspect

#: Two sizes of the part that grows. Even at the smaller size, quadratic work would clearly exceed the rest.
SMALL, LARGE = 200, 400

#: The largest factor by which the work may grow: 2, and a little for work that grows with the logarithm.
MAX_GROWTH = 2.3

#: The fields that the search for a diagnosis may read: few, so that the search does not hide the rest of the work.
#: The real limit is fixed.
_SEARCH_FIELDS = 1_000

#: The lines that the search and the ranking of its results may run in addition; they grow in jumps up to a limit.
_SEARCH_LINES = 200_000


@contextmanager
def short_searches() -> Iterator[None]:
    """Limit the search for a diagnosis, which reads a frame under many layouts, to little work."""
    old_limits = search.MAX_WORK, search.MAX_WORK_LARGE, payloads.MAX_FIELDS_READ
    search.MAX_WORK = search.MAX_WORK_LARGE = payloads.MAX_FIELDS_READ = _SEARCH_FIELDS
    try:
        yield
    finally:
        search.MAX_WORK, search.MAX_WORK_LARGE, payloads.MAX_FIELDS_READ = old_limits


def growth(growing: GrowingFrame) -> float:
    """Return the factor by which the work grows if the part doubles."""
    exchanges = growing.exchange(SMALL), growing.exchange(LARGE)

    def work_for(exchange: tuple[bytes, bytes]) -> int:
        return count_lines(lambda: (inspect(*exchange), explain_exchange(*exchange, is_request=growing.is_request)))

    work_for(growing.exchange(1))  # fill caches and compile decoders first
    small_work, large_work = map(work_for, exchanges)
    if growing.damage != "right":
        large_work -= _SEARCH_LINES
    return large_work / small_work
