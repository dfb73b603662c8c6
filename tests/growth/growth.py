"""Whether the work for a frame grows no faster than the frame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dissectors.diagnosis import payloads, search
from tests.growth.frames import Growing
from tests.growth.work import count_lines, explain_exchange, inspect

#: The sizes of the part that grows. At the first, the square of the size is clearly more than the rest of the work.
SMALL, LARGE = 200, 400

#: The most by which the work may grow: twice, and a little for what grows with the logarithm.
MAX_GROWTH = 2.3

#: The fields that the search for a diagnosis may read: few, so that it does not hide the rest. Its limit is fixed.
_SEARCH = 1_000

#: The lines that the search and the ranking of its results may run in addition, which grow in jumps up to their limit.
_OF_SEARCH = 200_000


@contextmanager
def short_searches() -> Iterator[None]:
    """Limit the search for a diagnosis, which reads a frame under many layouts, to little work."""
    old_limits = search.MAX_WORK, search.MAX_WORK_LARGE, payloads.MAX_FIELDS_READ
    search.MAX_WORK = search.MAX_WORK_LARGE = payloads.MAX_FIELDS_READ = _SEARCH
    try:
        yield
    finally:
        search.MAX_WORK, search.MAX_WORK_LARGE, payloads.MAX_FIELDS_READ = old_limits


def growth(growing: Growing) -> float:
    """The factor by which the work grows if the part doubles."""
    exchanges = growing.exchange(SMALL), growing.exchange(LARGE)

    def work_for(exchange: tuple[bytes, bytes]) -> int:
        return count_lines(lambda: (inspect(*exchange), explain_exchange(*exchange, is_request=growing.is_request)))

    work_for(growing.exchange(1))  # compiles and caches
    small_work, large_work = map(work_for, exchanges)
    if growing.damage != "right":
        large_work -= _OF_SEARCH
    return large_work / small_work
