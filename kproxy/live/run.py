"""The live proxy: the relay in this process, the inspector in another, until a signal ends both."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from kproxy.errors import UNREACHABLE, UserError
from kproxy.io.stdin import follow_stdin
from kproxy.live.inspector_process import InspectorProcess, start_inspector
from kproxy.live.reload import Reload, reload_on_signal
from kproxy.live.sink import InspectorOptions
from kproxy.outputs.stderr import say, warn
from kproxy.proxy.address import TcpAddress
from kproxy.proxy.events import BrokerListening, Event, InspectorLost
from kproxy.proxy.interception import Rewriting
from kproxy.proxy.listener import Listener
from kproxy.proxy.loop import run as run_loop
from kproxy.proxy.loop import stop_on_signals
from kproxy.proxy.opening import check_upstream
from kproxy.proxy.relay import Relay, serve
from kproxy.proxy.tap import Tap

#: Seconds for connections to become quiet after SIGTERM.
DRAIN_S = 5.0

if TYPE_CHECKING:
    from kproxy.broker import Broker, BrokerOptions


def run(
    listeners: Sequence[Listener],
    watch: InspectorOptions,
    *,
    strict: bool,
    check: bool,
    stop_with_stdin: bool = False,
    broker: BrokerOptions | None = None,
    watch_command: str | None = None,
    rewriting: Rewriting = Rewriting(),  # noqa: B008  # frozen
    reload: Reload | None = None,
) -> bool:
    """Relay until SIGINT or SIGTERM, then let the inspector finish; whether that saw everything to the end.

    Args:
        listeners: Where to listen, and where that leads.
        watch: What the inspector does.
        strict: The relay waits for the inspector, so that nothing is dropped.
        check: Do not start unless every upstream answers.
        stop_with_stdin: The end of standard input ends the relay too.
        broker: The built-in broker that the listeners lead to instead of their upstreams: all its nodes with its first
            listener, then all with its next.
        watch_command: The command that shows the traffic elsewhere; a terminal is told.
        rewriting: What the relay changes in frames.
        reload: Called at SIGHUP; gives the listeners as they are to be now, None if that failed.

    Raises:
        UserError: An address cannot be listened on, an upstream does not answer, or the built-in broker cannot start.
    """
    with start_inspector(watch) as inspector_process:
        run_loop(
            _relay(
                listeners,
                inspector_process,
                strict=strict,
                check=check,
                stop_with_stdin=stop_with_stdin,
                options=broker,
                watch_command=watch_command,
                rewriting=rewriting,
                reload=reload,
            )
        )
    if not inspector_process.went_well():
        inspector_process.report_lost("it was killed")
        return False
    return True


async def _relay(
    listeners: Sequence[Listener],
    inspector_process: InspectorProcess,
    *,
    strict: bool,
    check: bool,
    stop_with_stdin: bool,
    options: BrokerOptions | None,
    watch_command: str | None,
    rewriting: Rewriting,
    reload: Reload | None,
) -> None:
    def report(event: Event) -> None:
        if isinstance(event, InspectorLost):
            inspector_process.report_lost(event.reason)
        elif isinstance(event, BrokerListening):
            say(str(event))
        else:
            warn(str(event))

    tap = Tap(inspector_process.tap, node=socket.gethostname(), strict=strict)
    async with AsyncExitStack() as stack:
        if options is not None:
            listeners, broker = await _built_in(stack, listeners, options)
        relay = await stack.enter_async_context(serve(listeners, tap=tap, report=report, rewriting=rewriting))
        if check and options is None:
            await _check(listeners)
        with stop_on_signals() as stop:  # from here on: whoever is told that it runs may end it
            if options is not None:
                _invite(broker, listeners, relay, stop.ask if stop_with_stdin else lambda: None)
            else:
                for listened, upstream in relay.pairs:
                    say(f"listening on {listened} -> {upstream}")
                if stop_with_stdin:
                    loop = asyncio.get_running_loop()
                    follow_stdin(lambda line: None, lambda: loop.call_soon_threadsafe(stop.ask))
            if watch_command is not None and sys.stderr.isatty():
                say(f"watch it with: {watch_command}")
            if reload is not None:
                await stack.enter_async_context(reload_on_signal(relay, reload))
            await stop.wait()
            if stop.gently:
                await relay.drain(DRAIN_S, stop.at_once)


async def _built_in(
    stack: AsyncExitStack, listeners: Sequence[Listener], options: BrokerOptions
) -> tuple[Sequence[Listener], Broker]:
    """Start the built-in broker behind the listeners."""
    # The broker has its own 200 modules: a proxy before another broker starts without them.
    from kproxy.broker import Broker
    from kproxy.broker.storage import Unusable

    try:
        broker = await stack.enter_async_context(Broker(options, report=warn))
    except (Unusable, ValueError, OSError) as error:
        raise UserError(f"the built-in broker cannot start: {error}") from None
    bound = [port for name in broker.listeners for port in broker.ports_of(name)]
    ports = zip(listeners, bound, strict=True)
    return [replace(listener, upstream=TcpAddress("127.0.0.1", port)) for listener, port in ports], broker


def _invite(broker: Broker, listeners: Sequence[Listener], relay: Relay, at_end_of_stdin: Callable[[], None]) -> None:
    """Have clients told where the relay listens, tell the user, and take commands from standard input."""
    from kproxy.broker.console import HELP, listen_to_stdin
    from kproxy.broker.quirks.engine import Quirks

    places = [(name, node) for name in broker.listeners for node in broker.cluster.nodes.values()]
    for (name, node), listener in zip(places, listeners, strict=True):
        assert isinstance(listener.listen, TcpAddress)
        host = listener.listen.host or "localhost"
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104
        broker.advertise(name, node.id, shown, relay.port(listener))
    for name in broker.listeners:
        servers = ",".join(str(TcpAddress(*node.addresses[name])) for node in broker.cluster.nodes.values())
        protocol = f" security.protocol={broker.protocol(name)}" if len(broker.listeners) > 1 else ""
        say(f"built-in Kafka {broker.release}: connect clients with bootstrap.servers={servers}{protocol}")
    for each in broker.cluster.part(Quirks).says:
        say(f"quirk: {each}")
    if len(broker.cluster.nodes) > 1:
        say(f"commands: {HELP}")
    listen_to_stdin(broker, say, at_end_of_stdin)


async def _check(listeners: Sequence[Listener]) -> None:
    for upstream, listener in {listener.upstream: listener for listener in listeners}.items():
        if why := await check_upstream(listener):
            raise UserError(
                f"upstream {upstream} is unreachable: {why}; start it, or use --no-check to start kproxy without it",
                UNREACHABLE,
            )
