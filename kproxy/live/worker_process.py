"""WorkerProcess: the pool's handle for a worker's process, with the data to send to it, and its replies."""

from __future__ import annotations

import os
import pickle
import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, NoReturn

from kproxy.control.watch_state import WorkerLost
from kproxy.inspection.inspected_connection import Progress
from kproxy.live.failure import report_failure
from kproxy.live.worker import LENGTH, Replies, Reply
from kproxy.proxy import tap_protocol
from kproxy.proxy.sockets import reason

_CHUNK: Final = 1 << 20
_SOCKET_BUFFER: Final = 1 << 20
_SEND_THRESHOLD: Final = 16 * 1024


class WorkerProcess:
    """A worker's process. `put`, `send` and `exchange` never wait.

    Args:
        run: Serves the socket of the process until the other end is closed.
        selector: Calls `exchange` with the ready events.

    Attributes:
        replies: The replies that have arrived, each with how far connections are inspected after it.
        unanswered: The number of messages without a reply.
        connections: The number of open connections, which the pool counts.

    Raises:
        WorkerLost: The process cannot be started.
    """

    def __init__(self, run: Callable[[socket.socket], None], selector: selectors.BaseSelector) -> None:
        self._socket, self.pid = _start(run)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        self._selector = selector
        self._selector.register(self._socket, selectors.EVENT_READ, self)
        self._queue = bytearray([tap_protocol.VERSION])
        self._waits_to_write = False
        self._received = bytearray()
        self.unanswered = 0
        self.connections = 0
        self.replies: deque[tuple[Reply, dict[int, tuple[Progress, Progress]]]] = deque()

    def put(self, head: bytes, payload: bytes = b"") -> None:
        """Queue a message."""
        queue = self._queue
        queue += head
        queue += payload
        self.unanswered += 1
        if len(queue) >= _SEND_THRESHOLD and not self._waits_to_write:
            self.send()

    def exchange(self, events: int) -> None:
        """Send and receive as much as possible without waiting.

        Raises:
            WorkerLost: The process has ended.
        """
        try:
            self.send()
            if events & selectors.EVENT_READ:
                self._receive()
        except BlockingIOError:
            pass
        except OSError:
            raise WorkerLost from None

    def send(self) -> None:
        """Send as much as the socket has room for."""
        try:
            while self._queue:
                del self._queue[: self._socket.send(self._queue)]
        except BlockingIOError:
            pass
        except OSError:
            return  # the process has ended, which reading will show
        if self._waits_to_write != bool(self._queue):
            self._waits_to_write = bool(self._queue)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._waits_to_write else 0)
            self._selector.modify(self._socket, events, self)

    def _receive(self) -> None:
        data = self._socket.recv(_CHUNK)
        if not data:
            raise WorkerLost
        self._received += data
        while len(self._received) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._received)
            end = LENGTH.size + size
            if len(self._received) < end:
                return
            received: Replies = pickle.loads(self._received[LENGTH.size : end])  # noqa: S301  # from our own process
            del self._received[:end]
            self.unanswered -= len(received.replies)
            *replies, last = received.replies
            no_progress: dict[int, tuple[Progress, Progress]] = {}
            self.replies.extend([(reply, no_progress) for reply in replies])
            self.replies.append((last, received.progress))

    def close(self) -> int:
        """Close the socket and wait for the end of the process; return its status, as `os.waitpid` does."""
        self._selector.unregister(self._socket)
        self._socket.close()
        self._queue.clear()
        self.unanswered = 0
        return os.waitpid(self.pid, 0)[1]


def _start(run: Callable[[socket.socket], None]) -> tuple[socket.socket, int]:
    """Fork a process that calls `run`; return our end of its socket, and its process id."""
    try:
        inspector_end, worker_end = socket.socketpair()
        with worker_end:
            try:
                pid = os.fork()
            except OSError:
                inspector_end.close()
                raise
            if pid == 0:
                _run(run, worker_end)
    except OSError as error:
        raise WorkerLost(f"an inspector could not be started: {reason(error)}") from None
    return inspector_end, pid


def _run(run: Callable[[socket.socket], None], sock: socket.socket) -> NoReturn:
    """Call `run` in the forked process, then end the process: it must not return into the inspector's code."""
    status = 1
    try:
        os.closerange(3, sock.fileno())  # the sockets of other workers and of viewers
        os.closerange(sock.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        run(sock)
        status = 0
    except Exception as error:  # noqa: BLE001  # there is no caller to handle it
        report_failure(error)
    finally:
        os._exit(status)
