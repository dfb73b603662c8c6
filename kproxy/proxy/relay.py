"""The relay: listens, connects each client to its upstream, and keeps count."""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from kproxy.proxy.acceptor import Acceptor
from kproxy.proxy.address import Address, UnixAddress
from kproxy.proxy.connection import RelayedConnection
from kproxy.proxy.events import AcceptPaused, InspectorLost, Report, UpstreamReachable, UpstreamUnreachable
from kproxy.proxy.intercepted import InterceptingConnection
from kproxy.proxy.interception import Interception, Rewriting
from kproxy.proxy.listener import BoundListener, Listener
from kproxy.proxy.opening import Opening
from kproxy.proxy.sockets import ListenError, listen, reason, remove_stale, reset_on_close, set_tcp_options
from kproxy.proxy.tap import Tap
from kproxy.proxy.tls.failure import TlsError
from kproxy.proxy.tls.handshake import HANDSHAKE_TIMEOUT_S

CONNECT_TIMEOUT_S: Final = 10.0
#: Read at once from a socket. One such buffer serves all connections: what was read is passed on before the next read.
_READ_BYTES: Final = 256 * 1024
_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # of this machine, not of the upstream
_ACCEPT_RETRY_S: Final = 0.5
_REPEAT_S: Final = 60.0
_QUIET_S: Final = 0.5  # without a byte, a connection that drains is closed
_GRACE_S: Final = 1.0  # for what was read to leave, when the relay ends
_GOODBYE_S: Final = 5.0  # without the inspector taking anything of what is queued, when the relay ends


@dataclass(slots=True)
class Totals:
    """Since the relay began. Bytes are those that were relayed, in connections open and closed."""

    connections: int = 0  # accepted, those turned away included
    turned_away: int = 0  # the upstream could not be reached
    request_bytes: int = 0
    response_bytes: int = 0


@asynccontextmanager
async def serve(
    listeners: Sequence[Listener],
    *,
    tap: Tap | None = None,
    report: Report = lambda event: None,
    connect_timeout: float = CONNECT_TIMEOUT_S,
    handshake_timeout: float = HANDSHAKE_TIMEOUT_S,
    rewriting: Rewriting = Rewriting(),  # noqa: B008  # frozen
) -> AsyncIterator[Relay]:
    """Relay in the background while the `async with` block lasts.

    At its end the listeners are closed, then the connections, then the tap, which belongs to the relay.

    Args:
        listeners: Bound before anything is relayed.
        tap: Shown everything that is relayed.
        report: Called with events that the user should know about; must not block.
        connect_timeout: Seconds for an upstream to answer, over all addresses of its name.
        handshake_timeout: Seconds for a client, and for an upstream, to establish TLS.
        rewriting: What is changed on its way; nothing, unless the user asked for it.

    Raises:
        ListenError: An address cannot be listened on; then none is.
    """
    async with AsyncExitStack() as stack:
        tasks = asyncio.TaskGroup()
        relay = Relay(tap, report, (connect_timeout, handshake_timeout), rewriting, tasks)
        stack.push_async_callback(relay.close_tap)
        await tasks.__aenter__()
        # Not as a context manager: what the block raises would leave it inside an ExceptionGroup.
        stack.push_async_callback(tasks.__aexit__, None, None, None)
        stack.push_async_callback(relay.close_connections)
        stack.callback(relay.close_listeners)
        for listener in listeners:
            sockets = await asyncio.to_thread(listen, listener.listen)
            if isinstance(listener.listen, UnixAddress):
                stack.push_async_callback(_remove, Path(listener.listen.path))
            stack.callback(relay.add(listener, sockets).close)  # before the file of a Unix socket is removed
        relay.begin()
        yield relay


class Relay:
    """A relay that runs; `serve` makes it."""

    def __init__(
        self,
        tap: Tap | None,
        report: Report,
        timeouts: tuple[float, float],
        rewriting: Rewriting,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._tap = tap
        self._tasks = tasks
        self._report = report
        self._connect_timeout, self._handshake_timeout = timeouts
        self._listeners: list[BoundListener] = []
        self._interception = Interception(rewriting, self._bind, report)
        self._began = False
        self._numbers = itertools.count(1)
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._clients: dict[asyncio.Task[None] | None, RelayedConnection | None] = {}  # None: not connected yet
        self._closed = Totals()
        self._down: dict[Address, str] = {}  # upstreams that could not be reached, and why
        self._pressed = False
        self._accept_retry: asyncio.TimerHandle | None = None
        self._shortage_told = -math.inf  # in the loop's time

    @property
    def addresses(self) -> list[str]:
        """What is listened on, with the real ports, in the order of the listeners; loopback can be two."""
        return [name for name, _ in self.pairs]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each address as in `addresses`, and the upstream that it leads to; a server in this process has the same."""
        return [
            (acceptor.name, str(each.listener.upstream) if each.listener.dial is None else acceptor.name)
            for each in self._listeners
            if each.is_open
            for acceptor in each.acceptors
        ]

    def port(self, listener: Listener) -> int:
        """The port that a listener on TCP has, be it one that the system chose."""
        return next(bound.port for bound in self._listeners if bound.listener == listener)

    def lead(self, listener: Listener, upstream: Address) -> None:
        """Let a listener lead to this upstream from now on."""
        bound = next(bound for bound in self._listeners if bound.listener == listener)
        bound.listener = replace(listener, upstream=upstream)

    @property
    def totals(self) -> Totals:
        """A copy that is up to date."""
        totals = replace(self._closed)
        for connection in self._clients.values():
            _add(totals, connection)
        return totals

    @property
    def open_connections(self) -> int:
        """Client connections that are open, those that still wait for the upstream included."""
        return len(self._clients)

    @property
    def is_connected(self) -> bool:
        """Whether any client is connected to its upstream."""
        return any(connection is not None for connection in self._clients.values())

    @property
    def down(self) -> Mapping[Address, str]:
        """Upstreams that the last client could not be connected to, and why."""
        return self._down

    @property
    def upstreams(self) -> dict[Address, Listener]:
        """Where the open listeners lead, each with one of these listeners."""
        return {bound.listener.upstream: bound.listener for bound in self._listeners if bound.is_open}

    @property
    def lacks_resources(self) -> bool:
        """Whether no client is accepted for now, because there are no file descriptors left, or no memory."""
        return self._accept_retry is not None

    def add(self, listener: Listener, sockets: Sequence[socket.socket]) -> BoundListener:
        """A listener of the command line: nothing is accepted before `begin`."""
        bound = BoundListener(listener)
        self._bind(bound, sockets)
        self._interception.add_bootstrap(bound)
        return bound

    def begin(self) -> None:
        if self._tap is not None:
            self._tap.begin(
                self.pairs, self._press, lambda error: self._report(InspectorLost(reason(error))), self._report
            )
        self._began = True
        self._start_accepting()

    def close_listeners(self) -> None:
        """Listen no more, also where listeners were opened for brokers."""
        for bound in self._listeners:
            bound.close()

    async def drain(self, seconds: float, at_once: asyncio.Event | None = None) -> None:
        """Accept nobody, and close each connection when nothing has passed for a moment.

        Connections that are busy stay open. Returns after so many seconds, or when `at_once` is set.
        """
        self.close_listeners()
        passed: dict[RelayedConnection, tuple[int, float]] = {}
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (now := loop.time()) < end and self._clients:
            for connection in filter(None, self._clients.values()):
                total = connection.request_bytes + connection.response_bytes
                before, since = passed.get(connection, (-1, now))
                passed[connection] = total, since if total == before else now
                if total == before and now - since >= _QUIET_S:
                    connection.close()
            if at_once is not None and at_once.is_set():
                return
            await asyncio.sleep(_QUIET_S / 5)

    async def reconfigure(self, listeners: Sequence[Listener]) -> list[str]:
        """Listen on these addresses instead; return what failed, one sentence each. Open connections stay.

        A listener on the same address remains and leads to its new upstream.
        """
        failed = []
        wanted = {listener.listen: listener for listener in listeners}
        for bound in self._listeners:
            if bound.bootstrap is None and bound.is_open:
                if (listener := wanted.pop(bound.listener.listen, None)) is None:
                    bound.close()
                else:
                    bound.listener = listener
        for listener in wanted.values():
            try:
                self.add(listener, await asyncio.to_thread(listen, listener.listen))
            except ListenError as error:
                failed.append(str(error))
        if self._tap is not None:
            self._tap.listeners = self.pairs  # for the next inspector
        return failed

    def _bind(self, bound: BoundListener, sockets: Sequence[socket.socket]) -> None:
        bound.acceptors = [Acceptor(sock, partial(self._take, bound), self.pause_accepting) for sock in sockets]
        self._listeners = [each for each in self._listeners if each.is_open]
        self._listeners.append(bound)
        if self._began:
            self._start_accepting()

    def _start_accepting(self) -> None:
        if self._pressed or self._accept_retry is not None:
            return
        for bound in self._listeners:
            for acceptor in bound.acceptors:
                acceptor.start()

    def _stop_accepting(self) -> None:
        for bound in self._listeners:
            for acceptor in bound.acceptors:
                acceptor.stop()

    def _take(self, bound: BoundListener, accepted: socket.socket, client: str) -> None:
        self._tasks.create_task(self._serve(bound, accepted, client))

    def pause_accepting(self, error: OSError) -> None:
        """There are no file descriptors left, or no memory: do not look for clients for a while."""
        loop = asyncio.get_running_loop()
        if self._accept_retry is None:
            self._accept_retry = loop.call_later(_ACCEPT_RETRY_S, self._accept_again)
            self._stop_accepting()
        if loop.time() - self._shortage_told > _REPEAT_S:
            self._shortage_told = loop.time()
            self._report(AcceptPaused(reason(error)))

    async def close_connections(self) -> None:
        await asyncio.sleep(0)  # so that every task has begun: the socket of one that never does would be lost
        try:
            for task, connection in list(self._clients.items()):
                if connection is not None:
                    connection.close()
                elif task is not None:
                    task.cancel()
            if self._clients:
                await asyncio.wait([task for task in self._clients if task], timeout=_GRACE_S)
        finally:
            for connection in self._clients.values():
                if connection is not None:
                    connection.abort()

    async def close_tap(self) -> None:
        if self._tap is None or self._tap.lost:
            return
        totals = self._closed
        counts = (totals.connections, totals.request_bytes, totals.response_bytes)
        if not await self._tap.close(*counts, patience=_GOODBYE_S) and not self._tap.lost:
            self._report(InspectorLost(f"it has not read for {_GOODBYE_S:g} s"))

    async def _serve(self, bound: BoundListener, accepted: socket.socket, client: str) -> None:
        """One client, from accept to end. What a peer or the network does is never an exception here."""
        task = asyncio.current_task()
        self._clients[task] = None
        self._closed.connections += 1
        try:
            with accepted:
                try:
                    await self._connect_and_relay(task, bound, accepted, client)
                except TlsError:
                    pass  # the client was sent an alert, or a reset
                except OSError:  # the upstream cannot be reached, or one of the two sockets was dead from the start
                    reset_on_close(accepted)
        finally:
            _add(self._closed, self._clients.pop(task))

    async def _connect_and_relay(
        self, task: asyncio.Task[None] | None, bound: BoundListener, accepted: socket.socket, client: str
    ) -> None:
        number = next(self._numbers)
        tap = self._tap if self._tap is not None and self._tap.choose(number, client) else None
        opening = Opening(number, accepted, client, bound.now)
        try:
            requested_name = await opening.meet_client(self._handshake_timeout)
            opening.listener = self._interception.route(bound, requested_name)
            upstream = await opening.meet_upstream(self._connect_timeout, self._handshake_timeout)
        except asyncio.CancelledError:
            if tap is not None:
                opening.fail(tap, None)
            raise
        except OSError as error:
            if tap is not None:
                opening.fail(tap, error)
            if opening.at_upstream:
                self._turned_away(opening.listener.upstream, error)
                reset_on_close(accepted)
            raise
        address = opening.listener.upstream
        if self._down.pop(address, None):
            self._report(UpstreamReachable(str(address)))
        with upstream:
            set_tcp_options(accepted)
            tapped = opening.tapped(tap, upstream) if tap is not None else None
            ends = (accepted, upstream, self._buffer, tapped)
            frames = self._interception.of(bound, accepted)
            if frames is None:
                connection = RelayedConnection(*ends, opening.tls)
            else:
                connection = InterceptingConnection(*ends, frames, opening.tls)
            if self._pressed:
                connection.press(True)
            self._clients[task] = connection
            await connection.run()

    def _turned_away(self, upstream: Address, error: OSError) -> None:
        self._closed.turned_away += 1
        if error.errno in _SHORTAGES:
            self.pause_accepting(error)
        elif self._down.get(upstream) != (why := reason(error)):
            self._down[upstream] = why
            self._report(UpstreamUnreachable(str(upstream), why))

    def _press(self, pressed: bool) -> None:
        """Stop everything until the inspector has caught up, or go on."""
        self._pressed = pressed
        if pressed:
            self._stop_accepting()
        else:
            self._start_accepting()
        for connection in self._clients.values():
            if connection is not None:
                connection.press(pressed)

    def _accept_again(self) -> None:
        self._accept_retry = None
        self._start_accepting()


def _add(totals: Totals, connection: RelayedConnection | None) -> None:
    if connection is not None:
        totals.request_bytes += connection.request_bytes
        totals.response_bytes += connection.response_bytes


async def _remove(path: Path) -> None:
    with suppress(ListenError, OSError):  # another proxy may listen there by now
        await asyncio.to_thread(remove_stale, path)
