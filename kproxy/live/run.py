"""The live proxy: the relay in this process, the inspector in another, until a signal ends both."""

from __future__ import annotations

import asyncio
import math
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from dissectors.connections.tls_failures import remedy
from kproxy.errors import UNREACHABLE, UserError
from kproxy.io.stdin import follow_stdin
from kproxy.live.http_endpoint import serve_http
from kproxy.live.inspector_process import FAILED
from kproxy.live.inspector_watch import InspectorWatch
from kproxy.live.options import InspectorOptions
from kproxy.live.reload import Reload, reload_on_signal
from kproxy.live.service_manager import notify, ready
from kproxy.live.spawner import Spawner, report_unfinished, start_spawner
from kproxy.live.supervision import SPAWNER_LOST, Supervisor, ending
from kproxy.outputs.stderr import say, warn
from kproxy.proxy.address import Address, TcpAddress
from kproxy.proxy.events import BrokerListening, Event, InspectorGivenUp, InspectorLost, InspectorResumed
from kproxy.proxy.inspector_figures import FiguresReader
from kproxy.proxy.interception import Rewriting
from kproxy.proxy.listener import Listener
from kproxy.proxy.loop import StopRequest
from kproxy.proxy.loop import run as run_loop
from kproxy.proxy.opening import check_upstream
from kproxy.proxy.relay import Relay, serve
from kproxy.proxy.sockets import reason
from kproxy.proxy.tap import Tap
from kproxy.proxy.tls.failure import TlsError

#: Seconds for connections to become quiet after SIGTERM.
DRAIN_S = 5.0

if TYPE_CHECKING:
    from kproxy.broker import Broker, BrokerOptions
    from kproxy.replay.answers import CapturedAnswers
    from kproxy.replay.server import ReplayServer


def run(
    listeners: Sequence[Listener],
    watch: InspectorOptions,
    *,
    strict: bool,
    check: bool,
    stop_with_stdin: bool = False,
    broker: BrokerOptions | None = None,
    answers: CapturedAnswers | None = None,
    watch_command: str | None = None,
    rewriting: Rewriting = Rewriting(),  # noqa: B008  # frozen
    sample: float | None = None,
    reload: Reload | None = None,
    http: Address | None = None,
    registry: Address | None = None,
) -> bool:
    """Relay until SIGINT or SIGTERM, then let the inspector finish.

    Args:
        listeners: The addresses to listen on, and their upstreams.
        watch: What the inspector does.
        strict: The relay waits for the inspector, so that nothing is dropped.
        check: Start only if every upstream answers.
        stop_with_stdin: The end of standard input ends the relay too.
        broker: Options of the built-in broker, which replaces the upstreams: the first listeners are for its nodes'
            first listener, the next for their second.
        answers: Captured responses, which replace the upstreams.
        watch_command: The command that shows the traffic elsewhere; printed on a terminal.
        rewriting: What the relay changes in frames.
        sample: The share of connections that is inspected, above 0 to 1; None inspects all.
        reload: Called at SIGHUP; returns the listeners of the configuration, None if that failed.
        http: The address for health and metrics.
        registry: The address for the schema registry next to the built-in broker.

    Returns:
        Whether one inspector saw everything to the end, and the trace has it.

    Raises:
        UserError: An address cannot be listened on, an upstream does not answer, or the built-in broker cannot start.
    """
    with start_spawner(watch) as spawner:
        with spawner.spawn() as tap:  # closing it ends the inspector
            outcome, statuses, deadline = run_loop(
                _relay(
                    listeners,
                    spawner,
                    tap,
                    strict=strict,
                    check=check,
                    stop_with_stdin=stop_with_stdin,
                    options=broker,
                    answers=answers,
                    watch_command=watch_command,
                    rewriting=rewriting,
                    sample=sample,
                    reload=reload,
                    http=http,
                    registry=registry,
                    watch=watch,
                )
            )
        statuses += spawner.close(max(deadline - time.monotonic(), 0))
    if outcome is _Outcome.KILLED:
        if statuses != [0]:  # the one that was to write what is missing, neither
            report_unfinished(watch, "did not finish in time")
        return False
    if outcome is _Outcome.LOST:
        return False
    return _ended_well(statuses) and outcome is _Outcome.WHOLE and not watch.trace_state.lost_lines


class _Outcome(Enum):
    """How inspection went while the relay ran."""

    WHOLE = auto()
    RESTARTED = auto()
    LOST = auto()  # and reported
    KILLED = auto()  # because it did not finish, after which another one wrote what is missing


def _ended_well(statuses: Sequence[int]) -> bool:
    """Whether the last inspector has seen everything to the end; if not, report it."""
    match statuses:
        case [0]:
            return True
        case [status]:
            if status != FAILED:  # otherwise it has reported the reason
                warn(str(InspectorLost(ending(status))))
        case _:
            warn(f"the trace may lack lines: {SPAWNER_LOST}, so it is not known how the inspector has ended")
    return False


async def _relay(
    listeners: Sequence[Listener],
    spawner: Spawner,
    tap_socket: socket.socket,
    *,
    strict: bool,
    check: bool,
    stop_with_stdin: bool,
    options: BrokerOptions | None,
    answers: CapturedAnswers | None,
    watch_command: str | None,
    rewriting: Rewriting,
    sample: float | None,
    reload: Reload | None,
    http: Address | None,
    registry: Address | None,
    watch: InspectorOptions,
) -> tuple[_Outcome, list[int], float]:
    """Relay until a signal; return the outcome, statuses of inspectors, and when all processes must have ended."""
    lost = False

    def report(event: Event) -> None:
        nonlocal lost
        if isinstance(event, InspectorResumed) and supervisor.killed:
            event = InspectorGivenUp(event.bytes, event.frames, event.connections, trace)
        lost = lost or isinstance(event, InspectorLost)
        if isinstance(event, BrokerListening):
            say(str(event))
        else:
            warn(str(event))
        notify(status=str(event))

    figures = None if http is None else FiguresReader()
    tap = Tap(tap_socket, node=socket.gethostname(), strict=strict, table=spawner.table, sample=sample, figures=figures)
    supervisor = Supervisor(spawner, tap, report)
    inspector_watch = InspectorWatch(tap, spawner.table.activity, report)
    stop = StopRequest()
    deadline = math.inf
    trace = None if watch.directory is None else str(watch.directory)
    async with AsyncExitStack() as final, AsyncExitStack() as stack:
        final.callback(stop.release_signals)
        stack.callback(supervisor.close)
        if options is not None:
            listeners, broker = await _built_in(stack, listeners, options)
            registry_addresses = [] if registry is None else await _registry(stack, broker, registry)
        if answers is not None:
            listeners, server = await _replayed(stack, listeners, answers)
        relay = await stack.enter_async_context(
            serve(listeners, tap=tap, report=report, inspector_patience=math.inf, rewriting=rewriting)
        )
        if options is not None:
            _advertise(broker, listeners, relay)
        if answers is not None:
            for number, listener in enumerate(listeners):
                server.advertise(number, *_shown(listener, relay))
        await _check_own(relay)
        final.push_async_callback(supervisor.finish, relay.close_tap)
        if check and options is None and answers is None:
            await _check(listeners)
        endpoint = None
        if http is not None and figures is not None:
            state = None if watch.directory is None else watch.trace_state
            endpoint = await stack.enter_async_context(serve_http(http, relay, tap, figures, inspector_watch, state))
        stop.take_signals()  # from here on: a user who reads that it runs may stop it
        stack.enter_context(inspector_watch)
        if sample is not None:
            say(f"inspecting {100 * sample:.4g}% of all connections (--sample); the others are relayed only")
        if options is not None:
            _announce_built_in(broker, stop.ask if stop_with_stdin else lambda: None)
            if registry_addresses:
                say(f"schema registry on {' and '.join(f'http://{each}' for each in registry_addresses)}")
        else:
            for listened, upstream in relay.pairs:
                say(f"listening on {listened} -> {upstream if answers is None else answers}")
            if stop_with_stdin:
                loop = asyncio.get_running_loop()
                follow_stdin(lambda line: None, lambda: loop.call_soon_threadsafe(stop.ask))
        if watch_command is not None and sys.stderr.isatty():
            say(f"watch it with: {watch_command}")
        if reload is not None:
            change = relay.reconfigure if options is None else partial(_renew_tls, relay)
            await stack.enter_async_context(reload_on_signal(relay, reload, change))
        if endpoint is not None:
            say(f"health and metrics on {' and '.join(f'http://{each}' for each in endpoint.addresses)}")
        ready(relay.pairs)
        await stop.wait()
        deadline = time.monotonic() + watch.end_timeout
        supervisor.begin_end(asyncio.get_running_loop().time() + watch.end_timeout, stop.at_once)
        notify("STOPPING=1", status="draining" if stop.gently else "stopping")
        if endpoint is not None:
            endpoint.health.draining = True
        if stop.gently:
            await relay.drain(min(DRAIN_S, watch.end_timeout / 2), stop.at_once)
        supervisor.close(restart=True)
    if supervisor.killed:
        return _Outcome.KILLED, supervisor.statuses, deadline
    outcome = _Outcome.LOST if lost else _Outcome.RESTARTED if supervisor.failed else _Outcome.WHOLE
    return outcome, supervisor.statuses, deadline


async def _built_in(
    stack: AsyncExitStack, listeners: Sequence[Listener], options: BrokerOptions
) -> tuple[Sequence[Listener], Broker]:
    """Start the built-in broker behind the listeners. It has no ports: everything that it receives passes the relay."""
    # The broker has 200 modules of its own, which a proxy in front of another broker does not load.
    from kproxy.broker import Broker
    from kproxy.broker.storage import DataDirectoryError

    try:
        broker = await stack.enter_async_context(Broker(options, ports=None, report=warn))
    except (DataDirectoryError, ValueError, OSError) as error:
        raise UserError(f"the built-in broker cannot start: {error}") from None
    places = zip(listeners, _places(broker), strict=True)
    return [replace(listener, dial=partial(broker.connect, *place)) for listener, place in places], broker


async def _registry(stack: AsyncExitStack, broker: Broker, address: Address) -> list[str]:
    """Start the schema registry next to the built-in broker; return its addresses."""
    from kproxy.broker.schema_registry.errors import RestError
    from kproxy.live.registry_endpoint import serve_registry

    try:
        return await stack.enter_async_context(serve_registry(address, broker))
    except RestError as error:
        raise UserError(f"the schema registry cannot start: {error}") from None


async def _replayed(
    stack: AsyncExitStack, listeners: Sequence[Listener], answers: CapturedAnswers
) -> tuple[Sequence[Listener], ReplayServer]:
    """Put captured responses behind the listeners."""
    from kproxy.replay.server import ReplayServer

    server = await stack.enter_async_context(ReplayServer(answers, warn))
    return [replace(each, dial=partial(server.connect, number)) for number, each in enumerate(listeners)], server


def _places(broker: Broker) -> list[tuple[str, int]]:
    """The listener name and the node of each address that clients can connect to."""
    return [(name, node) for name in broker.listeners for node in broker.cluster.nodes]


def _advertise(broker: Broker, listeners: Sequence[Listener], relay: Relay) -> None:
    """Advertise the relay's addresses to clients, and use them as names of the nodes."""
    for (name, node), listener in zip(_places(broker), listeners, strict=True):
        shown = _shown(listener, relay)
        broker.advertise(name, node, *shown)
        relay.listeners.retarget(relay.listeners.find(listener), replace(listener, upstream=TcpAddress(*shown)))


def _shown(listener: Listener, relay: Relay) -> tuple[str, int]:
    """The host and port of a TCP listener for clients."""
    assert isinstance(listener.listen, TcpAddress)
    host = listener.listen.host or "localhost"
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104
    return shown, relay.listeners.port(listener)


async def _renew_tls(relay: Relay, listeners: Sequence[Listener]) -> list[str]:
    """Give the listeners of the built-in broker the TLS of these, which are the same otherwise. Nothing fails."""
    for bound, listener in zip(relay.listeners.open, listeners, strict=False):  # none is open while the proxy ends
        relay.listeners.retarget(bound, replace(bound.listener, tls=listener.tls))
    return []


def _announce_built_in(broker: Broker, at_end_of_stdin: Callable[[], None]) -> None:
    """Print how to connect, and take commands from standard input."""
    from kproxy.broker.console import HELP, listen_to_stdin
    from kproxy.broker.quirks.engine import Quirks

    for name in broker.listeners:
        servers = ",".join(str(TcpAddress(*node.addresses[name])) for node in broker.cluster.nodes.values())
        protocol = f" security.protocol={broker.protocol(name)}" if len(broker.listeners) > 1 else ""
        say(f"built-in Kafka {broker.release}: connect clients with bootstrap.servers={servers}{protocol}")
    for each in broker.cluster.part(Quirks).description:
        say(f"quirk: {each}")
    if len(broker.cluster.nodes) > 1:
        say(f"commands: {HELP}")
    listen_to_stdin(broker, say, at_end_of_stdin)


async def _check(listeners: Sequence[Listener]) -> None:
    for upstream, listener in {listener.upstream: listener for listener in listeners}.items():
        if (error := await check_upstream(listener)) is not None:
            raise UserError(
                f"upstream {upstream} is unreachable: {reason(error)}; {_remedy(error)}, "
                "or use --no-check to start kproxy without it",
                UNREACHABLE,
            )


async def _check_own(relay: Relay) -> None:
    """Check that no upstream is a listener of the relay itself."""
    for each in await relay.own_upstreams():
        raise UserError(
            f"--upstream {each.upstream} is this proxy's own listener {each.listener}: use the address of a broker, "
            "or another port with --listen"
        )


def _remedy(error: OSError) -> str:
    if not isinstance(error, TlsError):
        return "start it"
    return remedy("server", "server" if error.by_peer else "proxy", error.reason) or "check the broker's log"
