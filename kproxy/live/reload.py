"""Lets a running proxy reread its configuration file on SIGHUP."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from kproxy.live.service_manager import notify_reloading
from kproxy.outputs.stderr import print_message, warn
from kproxy.proxy.listener import Listener
from kproxy.proxy.relay import Relay

#: Returns the listeners of the configuration, or None after reporting that it is invalid.
Reload: TypeAlias = Callable[[], Sequence[Listener] | None]
#: Applies these listeners; returns the failures, as sentences.
Change: TypeAlias = Callable[[Sequence[Listener]], Awaitable[list[str]]]


@asynccontextmanager
async def reload_on_signal(relay: Relay, reload: Reload, change: Change) -> AsyncIterator[None]:
    """Change the relay's listeners on SIGHUP while the block lasts. Open connections stay."""
    loop = asyncio.get_running_loop()

    async def apply() -> None:
        with notify_reloading(lambda: relay.pairs):
            listeners = await asyncio.to_thread(reload)
            if listeners is None:
                warn("the configuration was not reloaded: kproxy continues as before")
                return
            for failure in await change(listeners):
                warn(failure)
        for listen_address, upstream in relay.pairs:
            print_message(f"listening on {listen_address} -> {upstream}")

    async with asyncio.TaskGroup() as tasks:
        loop.add_signal_handler(signal.SIGHUP, lambda: tasks.create_task(apply()))
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
