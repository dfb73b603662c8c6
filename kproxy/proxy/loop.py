"""Runs the proxy's event loop, and lets signals stop the proxy."""

from __future__ import annotations

import asyncio
import ctypes
import resource
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

T = TypeVar("T")

_KEPT_BYTES: Final = 64 * 1024 * 1024
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main`, with the limit of open files raised as far as the system allows."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS reports a limit that it does not accept
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    keep_freed_memory()
    return asyncio.run(main)


def keep_freed_memory() -> None:
    """Make malloc keep up to 64 MiB of freed memory instead of returning it to the system.

    Otherwise it returns the memory of every frame that was held, and the system fills the same pages with zeros for the
    next frame, which takes three times the CPU for Fetch responses of 1 MB. Only glibc has these options.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES // 2)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


class StopRequest(asyncio.Event):
    """An event that is set when the proxy is to stop.

    Attributes:
        gently: Whether busy connections may continue for a while (SIGTERM).
        at_once: Set by a second request.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gently = False
        self.at_once = asyncio.Event()

    def request(self, *, gently: bool = False) -> None:
        """Request the stop; a second request means to stop at once."""
        if self.is_set():
            self.at_once.set()
        self.gently = gently
        self.set()

    def take_signals(self) -> None:
        """Let Ctrl-C and SIGTERM set this event from now on."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, partial(self.request, gently=number == signal.SIGTERM))

    @staticmethod
    def release_signals() -> None:
        """Let Ctrl-C cancel the running tasks from now on."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Yield an event that Ctrl-C and SIGTERM set while the block lasts."""
    stop = StopRequest()
    stop.take_signals()
    try:
        yield stop
    finally:
        stop.release_signals()
