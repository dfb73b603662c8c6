"""Runs the proxy's event loop until somebody asks for the end.

It is asyncio's own: uvloop, measured beside it, answered no faster and passed fewer bytes.
"""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, with as many open files as the system allows."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS names a limit that it does not accept
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    return asyncio.run(main)


@contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C and SIGTERM set; after the block a Ctrl-C cancels whatever is still being done."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
