"""SIGHUP: a running proxy reads its configuration file again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from kproxy.live.service_manager import reloading
from kproxy.outputs.stderr import say, warn
from kproxy.proxy.listener import Listener
from kproxy.proxy.relay import Relay

#: Gives the listeners that the configuration has now, or None after it has said what is wrong.
Reload: TypeAlias = Callable[[], Sequence[Listener] | None]


@contextmanager
def reload_on_signal(relay: Relay, reload: Reload) -> Iterator[None]:
    """Have SIGHUP change the relay's listeners while the block lasts; connections that are open stay."""
    loop = asyncio.get_running_loop()
    running: set[asyncio.Task[None]] = set()

    async def apply() -> None:
        with reloading(lambda: relay.pairs):
            listeners = await asyncio.to_thread(reload)
            if listeners is None:
                warn("the configuration was not reloaded: kproxy goes on as before")
                return
            for failure in await relay.reconfigure(listeners):
                warn(failure)
        for listened, upstream in relay.pairs:
            say(f"listening on {listened} -> {upstream}")

    def begin() -> None:
        task = loop.create_task(apply())
        running.add(task)
        task.add_done_callback(running.discard)

    loop.add_signal_handler(signal.SIGHUP, begin)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in running:
            task.cancel()
