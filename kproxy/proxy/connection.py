"""A relayed connection: two connected sockets, and every byte of one written to the other."""

from __future__ import annotations

import asyncio
import socket
import time
from enum import Flag, auto
from typing import NamedTuple

from dissectors.events import Direction
from kproxy.proxy.sockets import reset_on_close
from kproxy.proxy.tapped import TappedConnection, TappedStream

_SIDES = ("client", "server")


class Ending(NamedTuple):
    """Who ended a connection first (client, server, proxy), and how: fin, reset, shutdown."""

    by: str
    how: str


class _Held(Flag):
    """Why a side is not read."""

    START = auto()  # the other side is not there yet
    PEER = auto()  # the other side does not take what was read
    TAP = auto()  # the inspector does not, and nothing may be dropped


class _Side(asyncio.BufferedProtocol):
    """One side: what arrives is written to the peer, then shown to the tap. Bytes are never changed.

    A slow peer pauses reading here, so its back-pressure reaches the sender and not our memory.

    Args:
        buffer: Read into; may be shared by all connections of an event loop, which reads one socket after the other.
    """

    peer: _Side
    transport: asyncio.Transport

    def __init__(
        self, connection: RelayedConnection, direction: Direction, buffer: memoryview, stream: TappedStream | None
    ) -> None:
        self.direction = direction
        self.received = 0
        self.made = False  # there is a transport
        self.ended = False  # nothing more will come
        self.gone = False  # the transport is closed
        self._connection = connection
        self._buffer = buffer
        self._show = stream.data if stream else None
        self._held = _Held.START

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.made = True
        transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        at = time.time_ns()
        chunk = bytes(self._buffer[:nbytes])
        self.peer.transport.write(chunk)
        self.received += nbytes
        if self._show is not None:
            self._show(chunk, at)

    def eof_received(self) -> bool:
        self.ended = True
        self._connection.half_closed(self)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = self.gone = True
        self._connection.lost(self, exc)

    def pause_writing(self) -> None:
        self.peer.hold(_Held.PEER)

    def resume_writing(self) -> None:
        self.peer.release(_Held.PEER)

    def hold(self, why: _Held) -> None:
        if not self._held:
            self.transport.pause_reading()
        self._held |= why

    def release(self, why: _Held) -> None:
        self._held &= ~why
        if not self._held and not self.ended:  # reading on after the end would meet the end again
            self.transport.resume_reading()

    def reset(self) -> None:
        reset_on_close(self.transport.get_extra_info("socket"))
        self.transport.abort()


class RelayedConnection:
    """Relays between two connected sockets until both are closed."""

    def __init__(self, buffer: memoryview, tapped: TappedConnection | None) -> None:
        self._tapped = tapped
        self._ending: Ending | None = None
        self._started = False
        self._over = asyncio.Event()
        request, response = tapped.streams if tapped else (None, None)
        self._client = _Side(self, Direction.REQUEST, buffer, request)
        self._server = _Side(self, Direction.RESPONSE, buffer, response)
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

    async def run(self, client: socket.socket, server: socket.socket) -> None:
        """Relay until both sides are closed, and tell the tap how that came.

        Raises:
            OSError: One of the sockets was dead from the start.
        """
        try:
            await _attach(self._client, client)
            await _attach(self._server, server)
            self._start()
            await self._over.wait()
        finally:
            self.abort()
            if self._tapped:
                by, how = self._ending or Ending("proxy", "reset")
                self._tapped.close(by, how, time.time_ns(), self.request_bytes, self.response_bytes)

    def close(self) -> None:
        """Send what was read, then end both sides."""
        self._ending = self._ending or Ending("proxy", "shutdown")
        if self._started:
            for side in self._sides:
                side.transport.close()

    def abort(self) -> None:
        """End both sides at once, with a reset: what they got may lack its end."""
        for side in self._sides:
            if side.made and not side.gone:
                side.reset()

    def press(self, pressed: bool) -> None:
        """Stop reading until the inspector has caught up, or go on."""
        for side in self._sides:
            if pressed:
                side.hold(_Held.TAP)
            else:
                side.release(_Held.TAP)

    def half_closed(self, side: _Side) -> None:
        """Nothing more will come from this side; the other way may go on."""
        self._note(side, "fin")
        try:
            if side.peer.ended:
                self._client.transport.close()
                self._server.transport.close()
            else:
                side.peer.transport.write_eof()
        except OSError:  # the peer has just been reset
            self._note(side.peer, "reset")
            side.reset()
            side.peer.reset()

    def lost(self, side: _Side, error: Exception | None) -> None:
        """The transport of this side is closed, by us without an error, by its peer or the network with one."""
        if error is not None:
            self._note(side, "reset")
        if side.peer.gone:
            self._over.set()
        elif self._ending and self._ending.how == "reset":
            side.peer.reset()
        elif side.peer.made:
            side.peer.transport.close()

    def _start(self) -> None:
        self._started = True
        if self._ending is not None:  # by `close`: nothing was read yet
            self.close()
        for side in self._sides:
            side.release(_Held.START)

    def _note(self, side: _Side, how: str) -> None:
        if self._ending is None:
            self._ending = Ending(_SIDES[side.direction], how)
        elif self._ending.how == "fin":
            self._ending = self._ending._replace(how=how)
        if self._tapped:
            self._tapped.streams[side.direction].end(how, time.time_ns())


async def _attach(side: _Side, sock: socket.socket) -> None:
    await asyncio.get_running_loop().connect_accepted_socket(lambda: side, sock)
