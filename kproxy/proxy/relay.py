"""The relay: accepts clients, connects each to its upstream, and counts connections and bytes."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from kproxy.proxy.address import Address, UnixAddress
from kproxy.proxy.bound_listeners import BoundListeners
from kproxy.proxy.client_connections import ClientConnections, Totals
from kproxy.proxy.client_opening import ConnectionSetup
from kproxy.proxy.connection import RelayedConnection
from kproxy.proxy.events import InspectorLost, Report, UpstreamIsProxy, UpstreamReachable, UpstreamUnreachable
from kproxy.proxy.intercepting_connection import InterceptingConnection
from kproxy.proxy.interception import Interception, Rewriting
from kproxy.proxy.listener import BoundListener, Listener
from kproxy.proxy.own_addresses import OwnAddresses, ProxyLoopError
from kproxy.proxy.shortage import Shortage, is_shortage
from kproxy.proxy.sockets import ListenError, listen, reason, remove_stale, reset_on_close, set_tcp_options
from kproxy.proxy.tap import Tap
from kproxy.proxy.tls.failure import TlsError
from kproxy.proxy.tls.handshake import HANDSHAKE_TIMEOUT_S

CONNECT_TIMEOUT_S: Final = 10.0
#: Bytes per read. All connections share one buffer of this size: a chunk is sent on before the next read.
_READ_BYTES: Final = 256 * 1024
#: How long the inspector may read nothing when the relay ends.
INSPECTOR_PATIENCE_S: Final = 5.0


@asynccontextmanager
async def serve(
    listeners: Sequence[Listener],
    *,
    tap: Tap | None = None,
    report: Report = lambda event: None,
    connect_timeout: float = CONNECT_TIMEOUT_S,
    handshake_timeout: float = HANDSHAKE_TIMEOUT_S,
    inspector_patience: float = INSPECTOR_PATIENCE_S,
    rewriting: Rewriting = Rewriting(),  # noqa: B008  # frozen
) -> AsyncIterator[Relay]:
    """Relay in the background while the `async with` block lasts.

    At the end, first the listeners close, then the connections, then the tap, which the relay owns.

    Args:
        listeners: All are bound before the first client is accepted.
        tap: Gets a copy of everything that is relayed.
        report: Called with events that the user should know about; must not block.
        connect_timeout: Seconds to connect to an upstream, over all addresses of its name.
        handshake_timeout: Seconds to establish TLS with a client, and with an upstream.
        inspector_patience: At the end, how many seconds the inspector may read nothing.
        rewriting: What the relay changes in frames; nothing by default.

    Raises:
        ListenError: One of the addresses cannot be listened on; then none is.
    """
    async with AsyncExitStack() as stack:
        tasks = asyncio.TaskGroup()
        relay = Relay(tap, report, (connect_timeout, handshake_timeout, inspector_patience), rewriting, tasks)
        stack.push_async_callback(relay.close_tap)
        await tasks.__aenter__()
        # Not as a context manager: that would wrap exceptions of the block in an ExceptionGroup.
        stack.push_async_callback(tasks.__aexit__, None, None, None)
        stack.push_async_callback(relay.clients.close)
        stack.callback(relay.listeners.close_all)
        for listener in listeners:
            sockets = await asyncio.to_thread(listen, listener.listen)
            if isinstance(listener.listen, UnixAddress):
                stack.push_async_callback(_remove_socket_file, Path(listener.listen.path))
                # Close the socket before its file is removed.
                stack.callback(relay.listeners.close_all)
            relay.add(listener, sockets)
        relay.begin()
        yield relay


class Relay:
    """A running relay, created by `serve`.

    Attributes:
        listeners: Its open listeners.
        clients: Its open connections.
        own: Recognizes upstreams that are listeners of this relay.
    """

    def __init__(
        self,
        tap: Tap | None,
        report: Report,
        timeouts: tuple[float, float, float],
        rewriting: Rewriting,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._tap = tap
        self._tasks = tasks
        self._report = report
        self._connect_timeout, self._handshake_timeout, self._inspector_patience = timeouts
        self.clients = ClientConnections()
        self.listeners = BoundListeners(
            self._accept, self._announce_listeners, Shortage(report, lambda: self.clients.connecting)
        )
        self.own = OwnAddresses(self.listeners)
        self._interception = Interception(rewriting, self.listeners, report)
        self._numbers = itertools.count(1)
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._down: dict[Address, str] = {}  # unreachable upstreams, with the reason

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The address and the upstream of each open listener."""
        return self.listeners.pairs

    @property
    def addresses(self) -> list[str]:
        """The address of each open listener, with its real port."""
        return [address for address, _ in self.listeners.pairs]

    @property
    def totals(self) -> Totals:
        """A copy of the current counts."""
        return self.clients.totals

    @property
    def down(self) -> Mapping[Address, str]:
        """The upstreams whose last connection attempt failed, with the reasons."""
        return self._down

    def add(self, listener: Listener, sockets: Sequence[socket.socket]) -> None:
        """Open a listener of the command line or the configuration file."""
        bound = BoundListener(listener)
        self.listeners.add(bound, sockets)
        self._interception.add_bootstrap(bound)

    def begin(self) -> None:
        """Accept clients."""
        if self._tap is not None:
            self._tap.begin(
                self.listeners.pairs,
                self._set_backpressure,
                lambda error: self._report(InspectorLost(reason(error))),
                self._report,
            )
        self.listeners.begin()

    async def drain(self, time_limit: float, at_once: asyncio.Event | None = None) -> None:
        """Stop accepting clients, and close each connection after a moment without traffic.

        Busy connections stay open. Return after `time_limit` seconds, or as soon as `at_once` is set.
        """
        self.listeners.close_all()
        await self.clients.drain(time_limit, at_once)

    async def reconfigure(self, listeners: Sequence[Listener]) -> list[str]:
        """Replace the listeners of the configuration file. Open connections stay.

        A listener whose address is still in the file stays open and gets its new upstream. With ``--advertise``, the
        listeners of brokers close when the last bootstrap listener of their cluster closes.

        Returns:
            The failures, as sentences.
        """
        failures = []
        listeners_by_address = {listener.listen: listener for listener in listeners}
        for bound in self.listeners.open:
            if bound.bootstrap is None:
                if (listener := listeners_by_address.pop(bound.listener.listen, None)) is None:
                    self.listeners.close(bound)
                    self._interception.remove_bootstrap(bound)
                else:
                    self.listeners.retarget(bound, listener)
        for listener in listeners_by_address.values():
            try:
                self.add(listener, await asyncio.to_thread(listen, listener.listen))
            except ListenError as error:
                failures.append(str(error))
        return [*failures, *map(str, await self.own_upstreams())]

    async def own_upstreams(self) -> list[UpstreamIsProxy]:
        """Return the upstreams that are listeners of this relay."""
        upstreams = [address for address, upstream in self.listeners.upstreams.items() if upstream.dial is None]
        listeners_found = [(str(upstream), await self.own.listener_at(upstream)) for upstream in upstreams]
        return [UpstreamIsProxy(upstream, listener) for upstream, listener in listeners_found if listener is not None]

    def _announce_listeners(self) -> None:
        if self._tap is not None:
            self._tap.announce_listeners(self.listeners.pairs)

    def _accept(self, bound: BoundListener, accepted: socket.socket, client: str) -> None:
        task = self._tasks.create_task(self._serve(bound, accepted, client))
        self.clients.add(task)
        task.add_done_callback(lambda _task: self.listeners.client_left())

    async def close_tap(self) -> None:
        """Send the totals to the inspector, and let it read the rest."""
        if self._tap is None or self._tap.lost:
            return
        totals = self.clients.closed
        counts = (totals.connections, totals.request_bytes, totals.response_bytes)
        if not await self._tap.close(*counts, within=self._inspector_patience) and not self._tap.lost:
            self._report(InspectorLost(f"it has not read for {self._inspector_patience:g} s"))

    async def _serve(self, bound: BoundListener, accepted: socket.socket, client: str) -> None:
        """Serve one client, from accept to end. Nothing that a peer or the network does makes this raise."""
        with accepted:
            try:
                await self._connect_and_relay(bound, accepted, client)
            except TlsError:
                pass  # the client got an alert, or a reset
            except OSError:  # the upstream is unreachable, or one of the two sockets was dead already
                reset_on_close(accepted)

    async def _connect_and_relay(self, bound: BoundListener, accepted: socket.socket, client: str) -> None:
        number = next(self._numbers)
        tap = self._tap if self._tap is not None and self._tap.choose(number, client) else None
        setup = ConnectionSetup(number, accepted, client, bound.now, self.own)
        try:
            requested_name = await setup.open_client(self._handshake_timeout)
            setup.listener = self._interception.route(bound, requested_name)
            upstream = await setup.open_upstream(self._connect_timeout, self._handshake_timeout)
        except asyncio.CancelledError:
            if tap is not None:
                setup.report_failure(tap, None)
            raise
        except OSError as error:
            if tap is not None:
                setup.report_failure(tap, error)
            if setup.at_upstream:
                self._report_unreachable(setup.listener.upstream, error)
                reset_on_close(accepted)
            raise
        address = setup.listener.upstream
        if self._down.pop(address, None):
            self._report(UpstreamReachable(str(address)))
        with upstream, self.own.link(client, upstream):
            set_tcp_options(accepted)
            tapped = setup.announce(tap, upstream) if tap is not None else None
            connection_args = (accepted, upstream, self._buffer, tapped)
            interception = self._interception.for_connection(bound, accepted)
            if interception is None:
                connection = RelayedConnection(*connection_args, setup.tls)
            else:
                connection = InterceptingConnection(*connection_args, interception, setup.tls)
            self.clients.add_connection(connection)
            await connection.run()

    def _report_unreachable(self, upstream: Address, error: OSError) -> None:
        self.clients.closed.turned_away += 1
        if is_shortage(error):
            self.listeners.pause_for(error)
        elif self._down.get(upstream) != (cause := reason(error)):
            self._down[upstream] = cause
            if isinstance(error, ProxyLoopError):
                self._report(UpstreamIsProxy(str(upstream), error.listener))
            else:
                self._report(UpstreamUnreachable(str(upstream), cause))

    def _set_backpressure(self, active: bool) -> None:
        """Stop accepting and reading until the inspector has caught up if `active`, otherwise resume."""
        if active:
            self.listeners.pause()
        else:
            self.listeners.resume()
        self.clients.set_backpressure(active)


async def _remove_socket_file(path: Path) -> None:
    with suppress(ListenError, OSError):  # another proxy may listen there now
        await asyncio.to_thread(remove_stale, path)
