"""Accepts connections on one listening socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from kproxy.proxy.sockets import name

_ACCEPTED_AT_ONCE: Final = 64  # then the event loop has its turn


class Acceptor:
    """Hands every accepted socket, non-blocking, to `on_client` with what its peer is called.

    Args:
        sock: Listening and non-blocking; closed by `close`.
        on_client: Owns the socket from then on.
        on_shortage: Called when the system has nothing left for another connection. The client stays in the system's
            queue, and the socket readable: without `stop` this would be called without end.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_client: Callable[[socket.socket, str], None],
        on_shortage: Callable[[OSError], None],
    ) -> None:
        self.name = name(sock.getsockname(), sock.family)
        self._socket = sock
        self._on_client = on_client
        self._on_shortage = on_shortage
        self._loop = asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return self._socket.fileno() >= 0

    def start(self) -> None:
        """Accept from now on, or again after `stop`; nothing after `close`."""
        if self.is_open:
            self._loop.add_reader(self._socket, self._accept)

    def stop(self) -> None:
        """Leave clients waiting in the system's queue."""
        if self.is_open:
            self._loop.remove_reader(self._socket)

    def close(self) -> None:
        """Listen no more."""
        self.stop()
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._on_shortage(error)
                return
            accepted.setblocking(False)
            self._on_client(accepted, name(peer, accepted.family))
