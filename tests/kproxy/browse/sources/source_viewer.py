"""A source as a viewer has it: it runs, and its lines are taken as they come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kproxy.browse.sources.source import Source


class Following:
    """What was taken of a source so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.places: list[int] = []
        self.lines: list[bytes] = []

    async def until(self, true: Callable[[], object], seconds: float = 90) -> None:
        """Take lines until something is true."""
        end = time.monotonic() + seconds
        while True:
            for place, line in self.source.store.new_lines():
                self.places.append(place)
                self.lines.append(line)
            if true():
                return
            if time.monotonic() > end:
                source = self.source
                raise AssertionError(f"{source.phase} {source.sentence!r} {list(source.messages)} {self.lines}")
            await asyncio.sleep(0.005)

    async def until_lines(self, count: int) -> list[bytes]:
        """Take so many; all so far, as they were written."""
        await self.until(lambda: len(self.lines) >= count)
        return [line + b"\n" for line in self.lines]

    @property
    def read_back(self) -> list[bytes]:
        """All lines once more, from their places."""
        store = self.source.store
        return [store.read(place, len(line)) for place, line in zip(self.places, self.lines, strict=True)]


@asynccontextmanager
async def following(source: Source) -> AsyncIterator[Following]:
    """Run a source; it is closed at the end."""
    task = asyncio.ensure_future(source.run())
    try:
        yield Following(source)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        source.close()
        if not task.cancelled() and (error := task.exception()):
            raise error
