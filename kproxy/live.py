"""The live proxy: the relay in this process, the inspector in another, until a signal ends both."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence

from kproxy.proxy.events import Event, InspectorLost
from kproxy.proxy.loop import run as run_loop
from kproxy.proxy.loop import wait_for_stop
from kproxy.proxy.relay import Listener, serve
from kproxy.proxy.sockets import check_upstream
from kproxy.proxy.tap import Tap
from kproxy.watch import Watch, Watching, start_watching, warn


class UpstreamDown(Exception):
    """An upstream does not answer at the start; one sentence that says what to do."""


def run(listeners: Sequence[Listener], watch: Watch, *, strict: bool, check: bool) -> bool:
    """Relay until SIGINT or SIGTERM, then let the inspector finish; whether that saw everything to the end.

    Args:
        listeners: Where to listen, and where that leads.
        watch: What the inspector does.
        strict: The relay waits for the inspector, so that nothing is dropped.
        check: Do not start unless every upstream answers.

    Raises:
        ListenError: An address cannot be listened on.
        UpstreamDown: See `check`.
    """
    with start_watching(watch) as watching:
        run_loop(_relay(listeners, watching, strict=strict, check=check))
    if not watching.went_well():
        watching.tell_lost("it was killed")
        return False
    return True


async def _relay(listeners: Sequence[Listener], watching: Watching, *, strict: bool, check: bool) -> None:
    def report(event: Event) -> None:
        if isinstance(event, InspectorLost):
            watching.tell_lost(event.reason)
        else:
            warn(str(event))

    tap = Tap(watching.tap, node=socket.gethostname(), strict=strict)
    async with serve(listeners, tap=tap, report=report) as relay:
        if check:
            await _check(listeners)
        for listened, upstream in relay.pairs:
            print(f"listening on {listened} -> {upstream}", file=sys.stderr, flush=True)  # noqa: T201
        await wait_for_stop()


async def _check(listeners: Sequence[Listener]) -> None:
    for upstream in dict.fromkeys(listener.upstream for listener in listeners):
        if why := await check_upstream(upstream):
            raise UpstreamDown(
                f"upstream {upstream} cannot be reached: {why}; start it, or give --no-check to start without it"
            )
