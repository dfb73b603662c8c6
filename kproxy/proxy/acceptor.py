"""Accepts connections on one listening socket, also when the system runs out of file descriptors."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from kproxy.proxy.events import AcceptPaused, Report
from kproxy.proxy.sockets import name, reason

_ACCEPTED_AT_ONCE: Final = 64  # then the event loop has its turn
_RETRY_S: Final = 0.5


class Acceptor:
    """Hands every accepted socket, non-blocking, to `on_client` with what its peer is called.

    Args:
        sock: Listening and non-blocking; closed by `close`.
    """

    def __init__(self, sock: socket.socket, on_client: Callable[[socket.socket, str], None], report: Report) -> None:
        self.name = name(sock.getsockname(), sock.family)
        self._socket = sock
        self._on_client = on_client
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._stopped = True
        self._exhausted = False  # and said so

    def start(self) -> None:
        """Accept from now on, or again after `stop`; nothing after `close`."""
        if self._socket.fileno() < 0:
            return
        self._stopped = False
        if self._retry is None:
            self._loop.add_reader(self._socket, self._accept)

    def stop(self) -> None:
        """Leave clients waiting in the system's queue."""
        self._stopped = True
        self._loop.remove_reader(self._socket)

    def close(self) -> None:
        """Listen no more."""
        self.stop()
        if self._retry is not None:
            self._retry.cancel()
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
                self._wait(error)
                return
            self._exhausted = False
            accepted.setblocking(False)
            self._on_client(accepted, name(peer, accepted.family))

    def _wait(self, error: OSError) -> None:
        """The client stays in the queue, so that the socket stays readable: do not look for a while."""
        self._loop.remove_reader(self._socket)
        self._retry = self._loop.call_later(_RETRY_S, self._try_again)
        if not self._exhausted:
            self._exhausted = True
            self._report(AcceptPaused(self.name, reason(error)))

    def _try_again(self) -> None:
        self._retry = None
        if not self._stopped:
            self.start()
