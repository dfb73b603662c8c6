"""Runs the proxy's event loop: uvloop's where it is installed, and until somebody asks for the end."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import resource
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, as `asyncio.run` does, with as many open files as the system allows."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS names a limit that it does not accept
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


async def wait_for_stop() -> None:
    """Wait for Ctrl-C or SIGTERM; a second Ctrl-C then cancels whatever is still being done."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        await stop.wait()
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory
