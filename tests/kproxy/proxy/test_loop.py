"""Running the event loop, and stopping it with signals."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import signal
import subprocess
import sys

import pytest

from kproxy.proxy.loop import run, stop_on_signals


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_runs_until_a_signal_stops_it(signal_number: signal.Signals) -> None:
    async def main() -> str:
        with stop_on_signals() as stop:
            os.kill(os.getpid(), signal_number)
            async with asyncio.timeout(5):
                await stop.wait()
        return "stopped"

    previous = signal.getsignal(signal.SIGTERM)
    assert run(main()) == "stopped"
    assert signal.getsignal(signal.SIGTERM) == previous


def test_raises_the_limit_of_open_files_to_the_maximum() -> None:
    async def main() -> tuple[int, int]:
        return resource.getrlimit(resource.RLIMIT_NOFILE)

    previous = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (previous[0] // 2, previous[1]))
    try:
        soft_limit, hard_limit = run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, previous)
    assert soft_limit == hard_limit


_FAULTS = """
import resource
from kproxy.proxy.loop import run

async def main():
    def use():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        pieces = [b"x" * 250_000 for _ in range(16)]
        b"".join(pieces)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    use()
    print(max(use() for _ in range(5)))

run(main())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc has the options")
def test_memory_of_a_frame_is_reused_for_the_next() -> None:
    result = subprocess.run([sys.executable, "-c", _FAULTS], check=True, capture_output=True, text=True)
    assert int(result.stdout) < 100  # out of 2000 pages
