"""Forwarder: a TCP relay that changes nothing and records everything, for either side of a proxy."""

from __future__ import annotations

import contextlib
import hashlib
import select
import socket
import threading
import time
from dataclasses import dataclass, field

Address = tuple[str, int]


@dataclass(slots=True)
class Stream:
    """One direction of a connection: its bytes, and after each arrival (monotonic seconds, bytes so far)."""

    data: bytearray = field(default_factory=bytearray)
    arrivals: list[tuple[float, int]] = field(default_factory=list)

    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def frames(self) -> list[tuple[int, int]]:
        """(offset, size with the length prefix) of every whole frame; cut at the length prefixes, nothing else read."""
        frames, offset = [], 0
        while offset + 4 <= len(self.data):
            size = 4 + int.from_bytes(self.data[offset : offset + 4], "big")
            if offset + size > len(self.data):
                break
            frames.append((offset, size))
            offset += size
        return frames

    def received_before(self, moment: float) -> int:
        """The number of bytes that arrived before a moment of the monotonic clock."""
        return max((total for arrived_at, total in self.arrivals if arrived_at < moment), default=0)


@dataclass(slots=True)
class Connection:
    """A relayed connection: the client (`peer`), the local address of the second leg (`local`), and both streams."""

    peer: Address
    local: Address
    requests: Stream = field(default_factory=Stream)
    responses: Stream = field(default_factory=Stream)
    open_directions: int = 2


class Forwarder:
    """Accepts, connects to `upstream`, and relays until both sides have closed.

    Once a side does not listen any more the other is still read to its end, so that what was recorded is what the
    proxy sent, whoever hung up first.

    Args:
        upstream: Where to.
        listener: A listening socket, which stays open; without it one is made and closed here.
    """

    def __init__(self, upstream: Address, listener: socket.socket | None = None) -> None:
        self.upstream = upstream
        self.connections: list[Connection] = []
        self._owned = listener is None
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()[:2]
        self._lock = threading.Lock()
        self._wake, self._waker = socket.socketpair()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def all_closed(self) -> bool:
        return not any(connection.open_directions for connection in self.connections)

    def relayed(self) -> int:
        """The number of bytes so far, both directions of all connections."""
        return sum(len(c.requests.data) + len(c.responses.data) for c in self.connections)

    def close(self) -> None:
        """Stop accepting, and close open connections."""
        self._waker.close()
        self._threads[0].join()
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (*self._sockets, self._wake, *([self._listener] if self._owned else [])):
            end.close()

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._wake], [], [])
            if self._wake in ready:
                return
            client_side, peer = self._listener.accept()
            try:
                server_side = socket.create_connection(self.upstream)
            except OSError:
                client_side.close()
                continue
            for end in (client_side, server_side):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(end)
            connection = Connection(peer[:2], server_side.getsockname()[:2])
            self.connections.append(connection)
            self._start(self._relay, connection, client_side, server_side, connection.requests)
            self._start(self._relay, connection, server_side, client_side, connection.responses)

    def _relay(self, connection: Connection, source: socket.socket, sink: socket.socket, stream: Stream) -> None:
        listening = True
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                stream.data += chunk
                stream.arrivals.append((time.monotonic(), len(stream.data)))
                if listening:
                    try:
                        sink.sendall(chunk)
                    except OSError:
                        listening = False
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        with self._lock:
            connection.open_directions -= 1
