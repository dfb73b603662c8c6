"""An event loop in its own thread, for code that is not asynchronous."""

# Rule 1: the manager is exited in the loop in which it was entered, before the loop ends, even after an exception.
#
# Rule 2: after `exit`, no thread, task or loop is left, even if entering failed or was interrupted.

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class LoopThread:
    """Runs an async context manager in an event loop in a thread, and runs functions in the same loop.

    Args:
        name: The name of the thread.
        manager: The context manager to enter and exit.
    """

    def __init__(self, name: str, manager: AbstractAsyncContextManager[Any]) -> None:
        self._manager = manager
        self._name = name
        self._thread: threading.Thread | None = None

    _loop: asyncio.AbstractEventLoop
    _stop: asyncio.Event

    def enter(self) -> None:
        """Start the thread and enter the manager.

        Raises:
            RuntimeError: The thread is already running.
        """
        if self._thread is not None:
            raise RuntimeError(f"{self._name} runs already: use another one at the same time")
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), name=self._name, daemon=True)
        self._thread.start()
        ready.wait()
        try:
            self.run(self._manager.__aenter__())
        except BaseException:
            self._end()
            raise

    def exit(self) -> None:
        """Exit the manager and end the thread."""
        try:
            self.run(self._manager.__aexit__(None, None, None))
        finally:
            self._end()

    @property
    def is_running(self) -> bool:
        """Whether the loop runs: between `enter` and `exit`."""
        return self._thread is not None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop; return its result. If waiting is interrupted, cancel the coroutine."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in the loop, or in this thread if the loop has ended; return its result."""

        async def call() -> T:
            return function(*args, **kwargs)

        return function(*args, **kwargs) if self._thread is None else self.run(call())

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await self._stop.wait()

    def _end(self) -> None:
        thread, self._thread = self._thread, None
        self._loop.call_soon_threadsafe(self._stop.set)
        if thread is not None:
            thread.join()
