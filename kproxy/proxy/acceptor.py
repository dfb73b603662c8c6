"""Accepts connections on one listening socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from kproxy.proxy.sockets import address_text

_MAX_ACCEPTS_PER_EVENT: Final = 64  # after these, the event loop gets its turn


class Acceptor:
    """Passes each accepted socket, made non-blocking, to `on_client`, with the address of its peer.

    Attributes:
        family: The address family of the socket.
        address: The address of the socket, as `getsockname` returns it.
        name: The same address as text.

    Args:
        sock: A listening, non-blocking socket; `close` closes it.
        on_client: Takes ownership of each accepted socket.
        on_shortage: Called if the system has no resources for another connection. The client stays in the system's
            queue and the socket stays readable, so this must call `stop`, or it is called again at once.
        check: Called with an open descriptor before each accept; may raise an OSError, which goes to `on_shortage`.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_client: Callable[[socket.socket, str], None],
        on_shortage: Callable[[OSError], None],
        check: Callable[[int], None] = lambda descriptor: None,
    ) -> None:
        self.family: int = sock.family
        self.address = sock.getsockname()
        self.name = address_text(self.address, sock.family)
        self._socket = sock
        self._on_client = on_client
        self._on_shortage = on_shortage
        self._check = check
        self._loop = asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self._socket.fileno() >= 0

    def start(self) -> None:
        """Start accepting connections. Do nothing after `close`."""
        if self.is_open:
            self._loop.add_reader(self._socket, self._accept)

    def stop(self) -> None:
        """Stop accepting clients: new ones wait in the system's queue."""
        if self.is_open:
            self._loop.remove_reader(self._socket)

    def close(self) -> None:
        """Close the listening socket."""
        self.stop()
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(_MAX_ACCEPTS_PER_EVENT):
            try:
                self._check(self._socket.fileno())
                accepted, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._on_shortage(error)
                return
            accepted.setblocking(False)
            self._on_client(accepted, address_text(peer, accepted.family))
