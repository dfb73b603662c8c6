"""Control the garbage collector, which would repeatedly traverse many new objects that have no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: The thresholds in kproxy's programs: the collector would traverse the objects of a large frame dozens of times. Most
#: have no cycles, and are freed without it.
PROGRAM_THRESHOLD = (100_000, 20, 20)


def keep_until_exit() -> None:
    """Exempt all existing objects from collection, but only in kproxy's programs: other programs may rely on it."""
    if gc.get_threshold() == PROGRAM_THRESHOLD:
        gc.freeze()


@contextmanager
def collector_disabled() -> Iterator[None]:
    """Disable the garbage collector. Reading a frame of 1 MB into a tree takes half the time without it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
