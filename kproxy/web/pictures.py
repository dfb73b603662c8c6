"""Pictures that windows request: counted in slices, cached, and recounted for at most a small part of the time."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.browse.session_view import SessionView

#: Maximum number of pictures that are kept.
_MAX_PICTURES: Final = 16
#: How many times longer the pause before a recount is than the last count.
_PAUSE_FACTOR: Final = 20
#: Seconds of work between two turns of other requests.
_SLICE_S: Final = 0.01


@dataclass(slots=True)
class _Picture:
    """A picture of a version of a view, the time it was complete, and the seconds it took."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    value: Any = None
    version: object = None
    completed_at: float = 0.0
    took_s: float = 0.0


class Pictures:
    """The latest picture of each query. Windows that request the same picture at the same time share it."""

    def __init__(self) -> None:
        self._pictures: OrderedDict[Hashable, _Picture] = OrderedDict()  # the most recently used last

    async def picture(self, key: Hashable, view: SessionView, count: Callable[[], Generator[None, None, Any]]) -> Any:
        """Return the picture of a view: a new one if rows have changed, unless the last one took long and is recent."""
        picture = self._pictures.setdefault(key, _Picture())
        self._pictures.move_to_end(key)
        if len(self._pictures) > _MAX_PICTURES:
            self._pictures.popitem(last=False)
        async with picture.lock:
            version = view, view.visible.version
            is_outdated = picture.version != version
            if is_outdated and (
                picture.value is None or time.monotonic() - picture.completed_at >= _PAUSE_FACTOR * picture.took_s
            ):
                picture.version = version
                picture.value, picture.took_s = await _run_in_slices(count())
                picture.completed_at = time.monotonic()
            return picture.value


async def _run_in_slices(steps: Generator[None, None, Any]) -> tuple[Any, float]:
    seconds = 0.0
    while True:
        start = time.perf_counter()
        try:
            while time.perf_counter() - start < _SLICE_S:
                next(steps)
        except StopIteration as end:
            return end.value, seconds + time.perf_counter() - start
        seconds += time.perf_counter() - start
        await asyncio.sleep(0)
