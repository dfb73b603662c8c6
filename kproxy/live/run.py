"""Runs the live proxy: the relay in this process, the inspector in another, until a signal ends both."""

from __future__ import annotations

import asyncio
import math
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from kproxy.errors import CLEAN, FINDINGS, UNWATCHED, UserError
from kproxy.live.http_endpoint import serve_http
from kproxy.live.inspector_process import FAILED, FOUND
from kproxy.live.inspector_watch import InspectorWatch
from kproxy.live.options import InspectorOptions
from kproxy.live.reload import Reload, reload_on_signal
from kproxy.live.service_manager import notify, notify_ready
from kproxy.live.spawner import Spawner, report_unfinished, start_spawner
from kproxy.live.supervision import SPAWNER_LOST, Supervisor, describe_exit
from kproxy.live.upstreams import Upstream
from kproxy.outputs.stderr import print_message, warn
from kproxy.proxy.address import Address
from kproxy.proxy.events import BrokerListening, Event, InspectorGivenUp, InspectorLost, InspectorResumed
from kproxy.proxy.inspector_figures import FiguresReader
from kproxy.proxy.interception import Rewriting
from kproxy.proxy.listener import Listener
from kproxy.proxy.loop import StopRequest
from kproxy.proxy.loop import run as run_loop
from kproxy.proxy.relay import Relay, serve
from kproxy.proxy.tap import Tap

#: The exit statuses of an inspector that has seen everything to the end.
_SUCCESS_STATUSES: Final = ([0], [FOUND])

#: Seconds that connections have to become quiet after SIGTERM.
DRAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class RelayOptions:
    """What a live proxy does.

    Attributes:
        listeners: The addresses to listen on, and their upstreams.
        inspector: What the inspector does.
        upstream: What is behind the listeners.
        strict: Whether the relay waits for the inspector, so that nothing is dropped.
        stop_with_stdin: Whether the end of standard input also ends the relay.
        watch_command: The command that shows the traffic elsewhere; printed on a terminal.
        rewriting: What the relay changes in frames.
        sample: The share of connections that is inspected, above 0 and up to 1; None inspects all.
        reload: Called on SIGHUP; returns the listeners of the configuration, or None if that failed.
        http: The address that serves health and metrics.
    """

    listeners: Sequence[Listener]
    inspector: InspectorOptions
    upstream: Upstream
    strict: bool = False
    stop_with_stdin: bool = False
    watch_command: str | None = None
    rewriting: Rewriting = field(default_factory=Rewriting)
    sample: float | None = None
    reload: Reload | None = None
    http: Address | None = None


def run(options: RelayOptions) -> int:
    """Relay until SIGINT or SIGTERM, then let the inspector finish.

    Returns:
        CLEAN or FINDINGS if a single inspector saw everything to the end and the trace is complete; else UNWATCHED.

    Raises:
        UserError: An address cannot be listened on, an upstream does not answer, or the built-in broker cannot start.
    """
    with start_spawner(options.inspector) as spawner:
        with spawner.spawn() as tap:  # closing it ends the inspector
            outcome, statuses, deadline = run_loop(_relay(options, spawner, tap))
        statuses += spawner.close(max(deadline - time.monotonic(), 0))
    if outcome is _Outcome.UNFINISHED:
        if statuses not in _SUCCESS_STATUSES:  # the inspector that was to write the gap lines did not finish either
            report_unfinished(options.inspector, "did not finish in time")
        return UNWATCHED
    if outcome is _Outcome.LOST or not _check_completeness(statuses):
        return UNWATCHED
    if outcome is not _Outcome.WHOLE or options.inspector.trace_state.lost_lines:
        return UNWATCHED
    return FINDINGS if statuses == [FOUND] else CLEAN


class _Outcome(Enum):
    """How inspection went while the relay ran."""

    WHOLE = auto()
    RESTARTED = auto()
    LOST = auto()  # the user was told
    UNFINISHED = auto()  # the inspector did not finish; another one wrote gap lines


def _check_completeness(statuses: Sequence[int]) -> bool:
    """Return whether the last inspector has seen everything to the end; if not, report it."""
    match statuses:
        case _ if statuses in _SUCCESS_STATUSES:
            return True
        case [status]:
            if status != FAILED:  # if it is, the inspector has reported the reason
                warn(str(InspectorLost(describe_exit(status))))
        case _:
            warn(f"the trace may lack lines: {SPAWNER_LOST}, so it is not known how the inspector has ended")
    return False


async def _relay(
    options: RelayOptions, spawner: Spawner, tap_socket: socket.socket
) -> tuple[_Outcome, list[int], float]:
    """Relay until a signal; return the outcome, the inspectors' statuses, and when all processes must have ended."""
    lost = False

    def report(event: Event) -> None:
        nonlocal lost
        if isinstance(event, InspectorResumed) and supervisor.unfinished:
            event = InspectorGivenUp(event.bytes, event.frames, event.connections, trace)
        lost = lost or isinstance(event, InspectorLost)
        if isinstance(event, BrokerListening):
            print_message(str(event))
        else:
            warn(str(event))
        notify(status=str(event))

    inspector, upstream, sample = options.inspector, options.upstream, options.sample
    figures = None if options.http is None else FiguresReader()
    tap = Tap(
        tap_socket, node=socket.gethostname(), strict=options.strict, table=spawner.table, sample=sample,
        figures=figures,
    )  # fmt: skip
    supervisor = Supervisor(spawner, tap, report)
    inspector_watch = InspectorWatch(tap, spawner.table.activity, report)
    stop = StopRequest()
    deadline = math.inf
    trace = None if inspector.directory is None else str(inspector.directory)
    async with AsyncExitStack() as outer_stack, AsyncExitStack() as stack:
        outer_stack.callback(stop.release_signals)
        stack.callback(supervisor.close)
        listeners = await upstream.start(stack, options.listeners)
        relay = await stack.enter_async_context(
            serve(listeners, tap=tap, report=report, inspector_patience=math.inf, rewriting=options.rewriting)
        )
        upstream.advertise(relay, listeners)
        await _check_own_upstreams(relay)
        outer_stack.push_async_callback(supervisor.finish, relay.close_tap)
        await upstream.check(listeners)
        endpoint = None
        if options.http is not None and figures is not None:
            trace_state = None if inspector.directory is None else inspector.trace_state
            endpoint = await stack.enter_async_context(
                serve_http(options.http, relay, tap, figures, inspector_watch, trace_state)
            )
        stop.take_signals()  # before anything says that the proxy runs: a user who reads it may stop the proxy
        stack.enter_context(inspector_watch)
        if sample is not None:
            print_message(f"inspecting {100 * sample:.4g}% of all connections (--sample); the others are relayed only")
        upstream.announce(relay, stop.request if options.stop_with_stdin else None)
        if options.watch_command is not None and sys.stderr.isatty():
            print_message(f"watch it with: {options.watch_command}")
        if options.reload is not None:
            await stack.enter_async_context(reload_on_signal(relay, options.reload, upstream.change(relay)))
        if endpoint is not None:
            print_message(
                f"health and metrics on {' and '.join(f'http://{address}' for address in endpoint.addresses)}"
            )
        notify_ready(relay.pairs)
        await stop.wait()
        deadline = time.monotonic() + inspector.end_timeout
        supervisor.start_shutdown(asyncio.get_running_loop().time() + inspector.end_timeout, stop.at_once)
        notify("STOPPING=1", status="draining" if stop.gently else "stopping")
        if endpoint is not None:
            endpoint.health.draining = True
        if stop.gently:
            await relay.drain(min(DRAIN_S, inspector.end_timeout / 2), stop.at_once)
        supervisor.close(restart=True)
    if supervisor.unfinished:
        return _Outcome.UNFINISHED, supervisor.statuses, deadline
    outcome = _Outcome.LOST if lost else _Outcome.RESTARTED if supervisor.failed else _Outcome.WHOLE
    return outcome, supervisor.statuses, deadline


async def _check_own_upstreams(relay: Relay) -> None:
    """Check that no upstream is a listener of the relay itself.

    Raises:
        UserError: An upstream is such a listener.
    """
    for own_upstream in await relay.own_upstreams():
        raise UserError(
            f"--upstream {own_upstream.upstream} is this proxy's own listener {own_upstream.listener}: use the address "
            "of a broker, or another port with --listen"
        )
