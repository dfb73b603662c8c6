"""The proxy of `endurance.py`: kproxy with a clock that can be set, and a count of its tasks.

    python benchmarks/endurance_proxy.py CLOCK OPTION...

CLOCK is a file of two numbers (signed, 8 bytes): nanoseconds to add to the time, and the number of asyncio's tasks,
which the relay writes at SIGUSR1.
"""

from __future__ import annotations

import asyncio
import mmap
import signal
import sys
import time
from pathlib import Path

from kproxy.cli import main


def set_up(path: Path) -> None:
    """Use the file in this process and in those that it forks."""
    with path.open("r+b") as file:
        shared = memoryview(mmap.mmap(file.fileno(), 16)).cast("q")
    real = time.time_ns
    time.time_ns = lambda: real() + shared[0]

    def count(*_: object) -> None:
        shared[1] = len(asyncio.all_tasks())

    signal.signal(signal.SIGUSR1, count)


if __name__ == "__main__":
    set_up(Path(sys.argv.pop(1)))
    sys.exit(main())
