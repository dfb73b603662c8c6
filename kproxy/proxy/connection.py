"""A relayed connection: two connected sockets; every byte of one is written to the other."""

from __future__ import annotations

import asyncio
import socket
import time
from enum import Flag, auto
from typing import NamedTuple

from dissectors.connections.events import Direction
from kproxy.proxy.sockets import reset_on_close
from kproxy.proxy.tapped_connection import TappedConnection, TappedStream

_SIDES = ("client", "server")


class Ending(NamedTuple):
    """Who ended a connection first (client, server, proxy), and how: fin, reset, shutdown."""

    by: str
    how: str


class _Held(Flag):
    """Why a side is not read."""

    PEER = auto()  # the other side has not taken everything that was read
    TAP = auto()  # the inspector has not, and nothing may be dropped


class _Side:
    """One socket. What arrives is written to the peer, then shown to the tap. Bytes are never changed.

    A side is not read while its peer has unsent bytes. So back-pressure reaches the sender, and at most one read of
    each direction is in memory.

    It watches its socket with the event loop's readers and writers, not with a transport: some patch releases start
    to read from a transport even if its protocol has called `pause_reading`, and then there is nowhere to write to.

    Args:
        sock: Connected, and not blocking.
        buffer: Read into; may be shared by all connections of an event loop, which reads one socket after the other.
    """

    peer: _Side

    def __init__(
        self,
        connection: RelayedConnection,
        direction: Direction,
        sock: socket.socket,
        buffer: memoryview,
        stream: TappedStream | None,
    ) -> None:
        self.direction = direction
        self.received = 0
        self.ended = False  # nothing more will be read
        self.gone = False  # the socket is closed
        self._connection = connection
        self._socket = sock
        self._buffer = buffer
        self._show = stream.data if stream else None
        self._held = _Held(0)
        self._unsent: memoryview | None = None
        self._finish = self._close = False  # once nothing is unsent: shut down for writing, close
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Read from now on, if nothing holds this side."""
        if not self._held and not self.ended:
            self._loop.add_reader(self._socket, self._on_readable)

    def hold(self, why: _Held) -> None:
        """Do not read until everything that holds this side has released it."""
        if not self._held and not self.ended:
            self._loop.remove_reader(self._socket)
        self._held |= why

    def release(self, why: _Held) -> None:
        """The counterpart of `hold`."""
        if self._held:
            self._held &= ~why
            self.start()

    def finish(self) -> None:
        """Shut down for writing, once everything is sent."""
        self._finish = True
        self._settle()

    def close(self) -> None:
        """Read no more, and close the socket once everything is sent."""
        self._stop_reading()
        self._close = True
        self._settle()

    def reset(self) -> None:
        """Close the socket at once; the other end sees a reset."""
        if not self.gone:
            reset_on_close(self._socket)
            self._lose(None)

    def _on_readable(self) -> None:
        try:
            size = self._socket.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if not size:
            self._stop_reading()
            self._connection.half_closed(self)
            return
        at = time.time_ns()
        chunk = bytes(self._buffer[:size])
        failure = self.peer._send(chunk)
        self.received += size
        if self._show is not None:
            self._show(chunk, at)
        if failure is not None:
            self.peer._lose(failure)

    def _send(self, chunk: bytes) -> OSError | None:
        """Send what the system takes, and the rest later; return why this socket takes nothing any more."""
        if self.gone:
            return None
        try:
            sent = self._socket.send(chunk)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            return error
        if sent < len(chunk):
            self._unsent = memoryview(chunk)[sent:]
            self._loop.add_writer(self._socket, self._on_writable)
            self.peer.hold(_Held.PEER)
        return None

    def _on_writable(self) -> None:
        assert self._unsent is not None
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if not self._unsent:
            self._stop_writing()
            self.peer.release(_Held.PEER)
            self._settle()

    def _settle(self) -> None:
        """Do what waits for everything to be sent."""
        if self._unsent is not None or self.gone:
            return
        if self._close:
            self._lose(None)
        elif self._finish:
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError as error:  # the other end has just reset the connection
                self._lose(error)

    def _lose(self, error: OSError | None) -> None:
        """Close the socket, because of an error or because that was asked for."""
        if self.gone:
            return
        self._stop_reading()
        self._stop_writing()
        self.gone = True
        self._socket.close()
        self._connection.lost(self, error)

    def _stop_reading(self) -> None:
        if not self.ended:
            self.ended = True
            if not self._held:
                self._loop.remove_reader(self._socket)

    def _stop_writing(self) -> None:
        if self._unsent is not None:
            self._unsent = None
            self._loop.remove_writer(self._socket)


class RelayedConnection:
    """Relays between two connected, non-blocking sockets until both are closed; it closes them.

    Nothing is read before `run`.
    """

    def __init__(
        self, client: socket.socket, server: socket.socket, buffer: memoryview, tapped: TappedConnection | None
    ) -> None:
        self._tapped = tapped
        self._ending: Ending | None = None
        self._over = asyncio.Event()
        request, response = tapped.streams if tapped else (None, None)
        self._client = _Side(self, Direction.REQUEST, client, buffer, request)
        self._server = _Side(self, Direction.RESPONSE, server, buffer, response)
        self._client.peer, self._server.peer = self._server, self._client
        self._sides = (self._client, self._server)

    @property
    def request_bytes(self) -> int:
        """Bytes that came from the client."""
        return self._client.received

    @property
    def response_bytes(self) -> int:
        """Bytes that came from the server."""
        return self._server.received

    async def run(self) -> None:
        """Relay until both sides are closed, then report to the tap who ended the connection, and how."""
        try:
            for side in self._sides:
                side.start()
            await self._over.wait()
        finally:
            self.abort()
            if self._tapped:
                by, how = self._ending or Ending("proxy", "reset")
                self._tapped.close(by, how, time.time_ns(), self.request_bytes, self.response_bytes)

    def close(self) -> None:
        """Send what was read, then close both sides."""
        self._ending = self._ending or Ending("proxy", "shutdown")
        for side in self._sides:
            side.close()

    def abort(self) -> None:
        """Close both sides at once, with a reset: what they received may be incomplete."""
        for side in self._sides:
            side.reset()

    def press(self, pressed: bool) -> None:
        """Stop reading until the inspector has caught up, or go on."""
        for side in self._sides:
            if pressed:
                side.hold(_Held.TAP)
            else:
                side.release(_Held.TAP)

    def half_closed(self, side: _Side) -> None:
        """This side has sent everything; the other direction may continue."""
        self._note(side, "fin")
        if side.peer.ended:
            for each in self._sides:
                each.close()
        else:
            side.peer.finish()

    def lost(self, side: _Side, error: OSError | None) -> None:
        """The socket of this side is closed: with an error if its peer or the network ended it, without if we did."""
        if error is not None:
            self._note(side, "reset")
        if side.peer.gone:
            self._over.set()
        elif self._ending and self._ending.how == "reset":
            side.peer.reset()
        else:
            side.peer.close()

    def _note(self, side: _Side, how: str) -> None:
        if self._ending is None:
            self._ending = Ending(_SIDES[side.direction], how)
        elif self._ending.how == "fin":
            self._ending = self._ending._replace(how=how)
        if self._tapped:
            self._tapped.streams[side.direction].end(how, time.time_ns())
