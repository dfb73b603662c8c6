"""Run a source as a viewer does, and collect its lines as they arrive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kproxy.browse.sources.source import Source


class SourceViewer:
    """A source and the lines that it has delivered so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.offsets: list[int] = []
        self.lines: list[bytes] = []

    async def until(self, condition: Callable[[], object], timeout_s: float = 90) -> None:
        """Collect lines until the condition is true."""
        deadline = time.monotonic() + timeout_s
        while True:
            for offset, line in self.source.store.take_new_lines():
                self.offsets.append(offset)
                self.lines.append(line)
            if condition():
                return
            if time.monotonic() > deadline:
                source = self.source
                raise AssertionError(f"{source.phase} {source.sentence!r} {list(source.messages)} {self.lines}")
            await asyncio.sleep(0.005)

    async def until_lines(self, count: int) -> list[bytes]:
        """Collect lines until there are at least `count`; return all lines so far, as they were written."""
        await self.until(lambda: len(self.lines) >= count)
        return [line + b"\n" for line in self.lines]

    @property
    def read_back(self) -> list[bytes]:
        """All lines so far, read again from their offsets."""
        store = self.source.store
        return [store.read(offset, len(line)) for offset, line in zip(self.offsets, self.lines, strict=True)]


@asynccontextmanager
async def run_source(source: Source) -> AsyncIterator[SourceViewer]:
    """Run a source, and close it at the end."""
    task = asyncio.ensure_future(source.run())
    try:
        yield SourceViewer(source)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        source.close()
        if not task.cancelled() and (error := task.exception()):
            raise error
