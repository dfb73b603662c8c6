"""SIGHUP: a running proxy reads its configuration file again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from kproxy.outputs.stderr import say, warn
from kproxy.proxy.listener import Listener
from kproxy.proxy.relay import Relay

#: Gives the listeners that the configuration has now, or None after it has said what is wrong.
Reload: TypeAlias = Callable[[], Sequence[Listener] | None]


@asynccontextmanager
async def reload_on_signal(relay: Relay, reload: Reload) -> AsyncIterator[None]:
    """Have SIGHUP change the relay's listeners while the block lasts; connections that are open stay."""
    loop = asyncio.get_running_loop()

    async def apply() -> None:
        listeners = await asyncio.to_thread(reload)
        if listeners is None:
            warn("the configuration was not reloaded: kproxy goes on as before")
            return
        for failure in await relay.reconfigure(listeners):
            warn(failure)
        for listened, upstream in relay.pairs:
            say(f"listening on {listened} -> {upstream}")

    async with asyncio.TaskGroup() as tasks:
        loop.add_signal_handler(signal.SIGHUP, lambda: tasks.create_task(apply()))
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
