"""Running and stopping, with the signals that people and systems send."""

from __future__ import annotations

import asyncio
import os
import resource
import signal

import pytest

from kproxy.proxy.loop import run, stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_runs_until_a_signal_asks_for_the_end(number: signal.Signals) -> None:
    async def main() -> str:
        with stop_on_signals() as stop:
            os.kill(os.getpid(), number)
            async with asyncio.timeout(5):
                await stop.wait()
        return "stopped"

    before = signal.getsignal(signal.SIGTERM)
    assert run(main()) == "stopped"
    assert signal.getsignal(signal.SIGTERM) == before


def test_runs_with_as_many_open_files_as_the_system_allows() -> None:
    async def main() -> tuple[int, int]:
        return resource.getrlimit(resource.RLIMIT_NOFILE)

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] // 2, before[1]))
    try:
        soft, hard = run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert soft == hard
