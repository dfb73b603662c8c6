"""Measure CPU time so that tests can limit it on any machine, idle or busy."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

#: CPU time (s) of `_make_objects` on a fast, idle machine.
_IDLE_SECONDS = 0.04


def _make_objects() -> None:
    """Use the processor and its caches as a decoder does."""
    objects = [{"number": number, "text": str(number)} for number in range(100_000)]
    objects.reverse()


def _measure(function: Callable[[], Any]) -> float:
    """Return the CPU time (s) of a call, in this thread only."""
    start = time.thread_time()
    function()
    return time.thread_time() - start


def _slowdown() -> float:
    """Return how many times slower the machine is now than a fast, idle one."""
    was_enabled = gc.isenabled()
    gc.disable()  # a collection would traverse the objects of other tests
    seconds = _measure(_make_objects)
    if was_enabled:
        gc.enable()
    return max(1.0, seconds / _IDLE_SECONDS)


def cpu_seconds(function: Callable[[], Any]) -> float:
    """Return the CPU time (s) that a call would take on a fast, idle machine.

    A busy machine needs more, because threads share cores, caches and memory. Known work is timed to scale the result.
    """
    before = _slowdown()
    seconds = _measure(function)
    return seconds / ((before + _slowdown()) / 2)
