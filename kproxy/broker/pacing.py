"""Splits long work into small steps, between which other connections are served.

All brokers share one thread. The handler of a request with a large array iterates over it with `paced`. The request
then takes effect one element at a time, as concurrent requests in Kafka do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final, Generic, Self, TypeVar

T = TypeVar("T")

#: How long one request may keep other requests waiting.
_STEP_S: Final = 0.01


class paced(Generic[T]):  # noqa: N801 - reads as a function, like `enumerate`
    """Iterate over items, which must not change, letting other tasks run every 10 ms."""

    __slots__ = ("_items", "_until")

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self._until = time.perf_counter() + _STEP_S

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if time.perf_counter() > self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + _STEP_S
        for item in self._items:
            return item
        raise StopAsyncIteration
