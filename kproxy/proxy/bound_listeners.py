"""The open listeners of a relay: where it listens, and whether it currently accepts clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kproxy.proxy.acceptor import Acceptor
from kproxy.proxy.address import Address
from kproxy.proxy.listener import BoundListener, Listener
from kproxy.proxy.shortage import Shortage

#: Seconds until clients are accepted again after a shortage, unless the deviation of a client ends it earlier.
_ACCEPT_RETRY_S: Final = 0.5


class BoundListeners:
    """Opens, retargets and closes listeners. Nothing is accepted before `begin`.

    Args:
        on_client: Called with each accepted socket, the listener that accepted it, and the client's address.
        on_change: Called soon after listeners were opened, retargeted or closed: once for all changes in one turn of
            the event loop. Not called before `begin`, nor for `close_all`.
        shortage: Decides whether there are enough file descriptors for another client.
    """

    def __init__(
        self,
        on_client: Callable[[BoundListener, socket.socket, str], None],
        on_change: Callable[[], None],
        shortage: Shortage,
    ) -> None:
        self._on_client = on_client
        self._on_change = on_change
        self._shortage = shortage
        self._listeners: list[BoundListener] = []
        self._begun = False
        self._closed = False
        self._paused = False
        self._retry: asyncio.TimerHandle | None = None
        self._ends_when_client_leaves = False
        self._change: asyncio.Handle | None = None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The address and the upstream of each open listener. A listener on loopback can have two addresses.

        A server in this process has no address other than the listener's.
        """
        return [
            (acceptor.name, str(listener.listener.upstream) if listener.listener.dial is None else acceptor.name)
            for listener in self.open
            for acceptor in listener.acceptors
        ]

    @property
    def open(self) -> list[BoundListener]:
        """The open listeners."""
        return [listener for listener in self._listeners if listener.is_open]

    @property
    def upstreams(self) -> dict[Address, Listener]:
        """The upstreams of the open listeners, each with one of its listeners."""
        return {bound.listener.upstream: bound.listener for bound in self.open}

    @property
    def lacks_resources(self) -> bool:
        """Whether no clients are accepted for now because file descriptors or memory are short."""
        return self._retry is not None

    def port(self, listener: Listener) -> int:
        """Return the TCP port of a listener, even if the system chose it."""
        return self.find(listener).port

    def find(self, listener: Listener) -> BoundListener:
        """Return the open listener that was made from this one."""
        return next(bound for bound in self._listeners if bound.listener == listener)

    def add(self, bound: BoundListener, sockets: Sequence[socket.socket]) -> None:
        """Open a listener with these listening sockets."""
        bound.acceptors = [
            Acceptor(sock, partial(self._on_client, bound), self._on_shortage, self._shortage.check) for sock in sockets
        ]
        self._listeners = [*self.open, bound]
        if self._closed:
            bound.close()
        self._start()
        self._schedule_announcement()

    def retarget(self, bound: BoundListener, listener: Listener) -> None:
        """Give a listener another upstream for future connections."""
        bound.listener = listener
        self._schedule_announcement()

    def close(self, bound: BoundListener) -> None:
        """Close a listener. Its connections stay open."""
        bound.close()
        self._schedule_announcement()

    def close_all(self) -> None:
        """Close every listener, because the relay is ending."""
        self._closed = True
        for bound in self._listeners:
            bound.close()
        if self._retry is not None:
            self._retry.cancel()

    def begin(self) -> None:
        """Accept clients."""
        self._begun = True
        self._start()

    def pause(self) -> None:
        """Stop accepting clients until `resume`."""
        self._paused = True
        self._stop()

    def resume(self) -> None:
        """Accept clients again."""
        self._paused = False
        self._start()

    def pause_for(self, error: OSError) -> None:
        """Stop accepting clients for a moment, because file descriptors or memory are short."""
        self._shortage.report(error)
        if self._retry is None and not self._closed:
            self._stop()
            self._retry = asyncio.get_running_loop().call_later(_ACCEPT_RETRY_S, self._accept_again)

    def client_left(self) -> None:
        """Note that a client's sockets are closed. If another client waits for descriptors, accept it now."""
        if self._retry is not None and self._ends_when_client_leaves:
            self._retry.cancel()
            self._accept_again()

    def _on_shortage(self, error: OSError) -> None:
        # Here, the client is still waiting. After a failure to connect to an upstream, in contrast, the client was
        # refused: if its deviation let in the next one, each client would be refused in turn.
        self.pause_for(error)
        self._ends_when_client_leaves = True

    def _accept_again(self) -> None:
        self._retry = None
        self._ends_when_client_leaves = False
        self._start()

    def _start(self) -> None:
        if self._begun and not self._closed and not self._paused and self._retry is None:
            for bound in self._listeners:
                for acceptor in bound.acceptors:
                    acceptor.start()

    def _stop(self) -> None:
        for bound in self._listeners:
            for acceptor in bound.acceptors:
                acceptor.stop()

    def _schedule_announcement(self) -> None:
        if self._begun and not self._closed and self._change is None:
            self._change = asyncio.get_running_loop().call_soon(self._announce)

    def _announce(self) -> None:
        self._change = None
        if not self._closed:
            self._on_change()
