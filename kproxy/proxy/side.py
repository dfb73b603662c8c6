"""Side: one socket of a relayed connection."""

# Rule 1: a side is read only while its peer has no unsent bytes and nothing holds the side. So at most one read of
# each direction is in memory, and back-pressure reaches the sender.
#
# Rule 2: bytes are written to the peer before anything else gets them.
#
# Rule 3: the two directions end independently: a half-close is passed on, whereas a reset resets both.

from __future__ import annotations

import asyncio
import socket
import time
from enum import Flag, auto
from typing import Protocol

from dissectors.connections.events import Direction
from kproxy.proxy.sockets import reset_on_close
from kproxy.proxy.tls.failure import TlsError


class SideOwner(Protocol):
    """The connection that a side belongs to."""

    def pass_on(self, side: Side, chunk: bytes, at: int) -> None:
        """Handle bytes that a side has received."""

    def half_closed(self, side: Side) -> None:
        """Handle that a side's client or server will send nothing more."""

    def socket_closed(self, side: Side, error: OSError | None) -> None:
        """Handle the closing of a side's socket; `error` is set if the other end or the network closed it."""

    def tls_failed(self, side: Side, error: TlsError) -> None:
        """Handle a failure of TLS with a side's client or server; `lost` follows."""


class HoldReason(Flag):
    """Why a side is not read."""

    PEER = auto()  # the other side has unsent bytes
    TAP = auto()  # the inspector is behind, and nothing may be dropped
    DELAY = auto()  # an interceptor delays the bytes read


class Side:
    """One socket. The bytes it receives go to the connection, which sends them to the peer: the other side.

    A side is not read while its peer has unsent bytes. So back-pressure reaches the sender, and at most one read of
    each direction is in memory.

    It uses the event loop's readers and writers instead of a transport: some patch releases of Python read from a
    transport although its protocol has called `pause_reading`, and then there is no room for the bytes.

    Args:
        sock: A connected, non-blocking socket.
        buffer: The buffer for reads. All connections of an event loop can share it: each read is passed on before the
            next.
    """

    peer: Side
    truncated = False  # the other end's TLS ended without close_notify

    def __init__(
        self,
        connection: SideOwner,
        direction: Direction,
        sock: socket.socket,
        buffer: memoryview,
    ) -> None:
        self.direction = direction
        self.received = 0
        self.ended = False  # nothing more will be read
        self.gone = False  # the socket is closed
        self._connection = connection
        self._socket = sock
        self._buffer = buffer
        self._held = HoldReason(0)
        self._unsent: memoryview | None = None
        self._finish_requested = self._close_requested = False  # both wait until everything is sent
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Start reading, unless something holds this side."""
        if not self._held and not self.ended:
            self._loop.add_reader(self._socket, self._on_readable)

    def hold(self, reason: HoldReason) -> None:
        """Stop reading until this side has been released for every reason that holds it."""
        if not self._held and not self.ended:
            self._loop.remove_reader(self._socket)
        self._held |= reason

    def release(self, reason: HoldReason) -> None:
        """Undo `hold` for this reason."""
        if self._held:
            self._held &= ~reason
            self.start()

    def finish(self) -> None:
        """Shut the socket down for writing once everything is sent."""
        self._finish_requested = True
        self._finish_if_sent()

    def close(self) -> None:
        """Stop reading, and close the socket once everything is sent."""
        self._stop_reading()
        self._close_requested = True
        self._finish_if_sent()

    def reset(self) -> None:
        """Close the socket immediately; the other end gets a reset."""
        if not self.gone:
            reset_on_close(self._socket)
            self.lose(None)

    def _on_readable(self) -> None:
        try:
            size = self._socket.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.lose(error)
            return
        if size:
            self._receive(self._buffer[:size])
        else:
            self._receive_end()

    def _receive(self, data: memoryview) -> None:
        """Process bytes that the socket has received; `data` is valid until the next read."""
        self.received += len(data)
        self._connection.pass_on(self, bytes(data), time.time_ns())

    def _receive_end(self) -> None:
        """Stop reading, because the other end will send nothing more."""
        if not self.ended:
            self._stop_reading()
            self._connection.half_closed(self)

    def send(self, chunk: bytes) -> OSError | None:
        """Send what the system accepts now, and the rest later; return the error if the socket cannot send any more."""
        if self.gone:
            return None
        if self._unsent is not None:  # these bytes do not come from the peer, which is held
            self._unsent = memoryview(bytes(self._unsent) + chunk)
            return None
        try:
            sent_size = self._socket.send(chunk)
        except (BlockingIOError, InterruptedError):
            sent_size = 0
        except OSError as error:
            return error
        if sent_size < len(chunk):
            self._unsent = memoryview(chunk)[sent_size:]
            self._loop.add_writer(self._socket, self._on_writable)
            self.peer.hold(HoldReason.PEER)
        return None

    def _on_writable(self) -> None:
        assert self._unsent is not None
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.lose(error)
            return
        if not self._unsent:
            self._stop_writing()
            self.peer.release(HoldReason.PEER)
            self._finish_if_sent()

    def _finish_if_sent(self) -> None:
        """Shut down or close the socket, if this was requested and everything is sent."""
        if self._unsent is not None or self.gone:
            return
        if self._close_requested:
            self.lose(None)
        elif self._finish_requested:
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError as error:  # the other end has just reset the connection
                self.lose(error)

    def lose(self, error: OSError | None) -> None:
        """Close the socket, on request or because of an error."""
        if self.gone:
            return
        self._stop_reading()
        self._stop_writing()
        self.gone = True
        self._socket.close()
        self._connection.socket_closed(self, error)

    def _stop_reading(self) -> None:
        if not self.ended:
            self.ended = True
            if not self._held:
                self._loop.remove_reader(self._socket)

    def _stop_writing(self) -> None:
        if self._unsent is not None:
            self._unsent = None
            self._loop.remove_writer(self._socket)
