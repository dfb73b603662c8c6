"""A TCP relay for either side of a proxy, which changes nothing and records everything."""

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
    """One direction of a connection: its bytes, and for each arrival (monotonic seconds, bytes so far)."""

    data: bytearray = field(default_factory=bytearray)
    arrivals: list[tuple[float, int]] = field(default_factory=list)

    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def frames(self) -> list[tuple[int, int]]:
        """Return (offset, size with the length prefix) of each whole frame, read from the length prefixes only."""
        frames, offset = [], 0
        while offset + 4 <= len(self.data):
            size = 4 + int.from_bytes(self.data[offset : offset + 4], "big")
            if offset + size > len(self.data):
                break
            frames.append((offset, size))
            offset += size
        return frames

    def received_before(self, moment: float) -> int:
        """Return the number of bytes that arrived before a moment of the monotonic clock."""
        return max((total for arrived_at, total in self.arrivals if arrived_at < moment), default=0)


@dataclass(slots=True)
class Connection:
    """A relayed connection: the client's address, the local address of the upstream side, and both streams."""

    peer: Address
    local: Address
    requests: Stream = field(default_factory=Stream)
    responses: Stream = field(default_factory=Stream)
    open_directions: int = 2


class Forwarder:
    """Accepts connections, connects each to `upstream`, and relays bytes until both sides have closed.

    When one side no longer accepts bytes, the other side is still read to its end. So everything that the proxy sent is
    recorded, no matter which side closed first.

    Args:
        upstream: The address to connect to.
        listener: A listening socket, which stays open; by default, the forwarder opens and closes its own.
    """

    def __init__(self, upstream: Address, listener: socket.socket | None = None) -> None:
        self.upstream = upstream
        self.connections: list[Connection] = []
        self._owns_listener = listener is None
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
        """Return the number of bytes so far, in both directions of all connections."""
        return sum(len(connection.requests.data) + len(connection.responses.data) for connection in self.connections)

    def close(self) -> None:
        """Stop accepting, and close open connections."""
        self._waker.close()
        self._threads[0].join()
        for endpoint in self._sockets:
            with contextlib.suppress(OSError):
                endpoint.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for endpoint in (*self._sockets, self._wake, *([self._listener] if self._owns_listener else [])):
            endpoint.close()

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
            for endpoint in (client_side, server_side):
                endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(endpoint)
            connection = Connection(peer[:2], server_side.getsockname()[:2])
            self.connections.append(connection)
            self._start(self._relay, connection, client_side, server_side, connection.requests)
            self._start(self._relay, connection, server_side, client_side, connection.responses)

    def _relay(self, connection: Connection, source: socket.socket, sink: socket.socket, stream: Stream) -> None:
        sink_is_open = True
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                stream.data += chunk
                stream.arrivals.append((time.monotonic(), len(stream.data)))
                if sink_is_open:
                    try:
                        sink.sendall(chunk)
                    except OSError:
                        sink_is_open = False
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        with self._lock:
            connection.open_directions -= 1
