"""Waiting until something changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class Changed:
    """Tells who waits that a thing (a log, a group) has changed; they look for themselves whether it concerns them."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def tell(self) -> None:
        """Wake all who wait."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)


async def any_of(changes: Iterable[Changed], timeout_ms: float) -> bool:
    """Wait until one of them is told of, at most so long; whether one was."""
    future = asyncio.get_running_loop().create_future()
    watched = list(changes)
    for each in watched:
        each._waiting.add(future)
    try:
        async with asyncio.timeout(max(timeout_ms, 0) / 1000):
            await future
    except TimeoutError:
        return False
    finally:
        for each in watched:
            each._waiting.discard(future)
    return True
