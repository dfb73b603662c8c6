"""The proxy for `endurance.py`: kproxy with an adjustable clock and a count of its tasks.

    python benchmarks/endurance_proxy.py CLOCK OPTION...

CLOCK is a file with two numbers (signed, 8 bytes): nanoseconds to add to the time, and the number of asyncio's tasks,
which the relay writes upon SIGUSR1.
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
    """Use the shared file in this process and in the processes that it forks."""
    with path.open("r+b") as file:
        shared = memoryview(mmap.mmap(file.fileno(), 16)).cast("q")
    real_time_ns = time.time_ns
    time.time_ns = lambda: real_time_ns() + shared[0]

    def write_task_count(*_: object) -> None:
        shared[1] = len(asyncio.all_tasks())

    signal.signal(signal.SIGUSR1, write_task_count)


if __name__ == "__main__":
    set_up(Path(sys.argv.pop(1)))
    sys.exit(main())
