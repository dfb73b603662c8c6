"""The live proxy: the relay in this process, the inspector in another, until a signal ends both."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Sequence

from kproxy.proxy.relay import Listener, serve
from kproxy.proxy.tap import Tap
from kproxy.watch import Watch, start_watching, warn


def run(listeners: Sequence[Listener], watch: Watch, *, strict: bool) -> None:
    """Relay until SIGINT or SIGTERM, then let the inspector finish.

    Args:
        listeners: Where to listen, and where that leads.
        watch: What the inspector does.
        strict: The relay waits for the inspector, so that nothing is dropped.

    Raises:
        ListenError: An address cannot be listened on.
    """
    with start_watching(watch) as tapped:
        asyncio.run(_relay(listeners, tapped, strict=strict))


async def _relay(listeners: Sequence[Listener], tapped: socket.socket, *, strict: bool) -> None:
    enough = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, enough.set)
    tap = Tap(tapped, node=socket.gethostname(), strict=strict)
    async with serve(listeners, tap=tap, report=lambda event: warn(str(event))) as relay:
        for listened, upstream in relay.pairs:
            print(f"listening on {listened} -> {upstream}", file=sys.stderr, flush=True)  # noqa: T201
        await enough.wait()
