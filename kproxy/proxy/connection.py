"""A relayed connection: every byte read from one of two sockets is written to the other."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import NamedTuple

from dissectors.connections.events import Direction
from kproxy.proxy.side import HoldReason, Side
from kproxy.proxy.tapped_connection import TappedConnection
from kproxy.proxy.tls.failure import TlsError
from kproxy.proxy.tls.side import TlsSide
from kproxy.proxy.tls.stream import TlsStream

_SIDES = ("client", "server")


class ConnectionEnd(NamedTuple):
    """Who ended a connection first (client, server, proxy), and how (fin, reset, shutdown)."""

    by: str
    how: str


class RelayedConnection:
    """Relays between two connected, non-blocking sockets until it has closed both.

    Nothing is read before `run`.

    Args:
        client, server: The sockets.
        buffer: The buffer for reads, see `Side`.
        tapped: Gets a copy of everything, as plaintext.
        tls: The established TLS streams of client and server; None for a peer without TLS.
    """

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        buffer: memoryview,
        tapped: TappedConnection | None,
        tls: tuple[TlsStream | None, TlsStream | None] = (None, None),
    ) -> None:
        self._tapped = tapped
        self._ending: ConnectionEnd | None = None
        self._finished = asyncio.Event()
        self._client = self._make_side(Direction.REQUEST, client, buffer, tls[0])
        self._server = self._make_side(Direction.RESPONSE, server, buffer, tls[1])
        self._client.peer, self._server.peer = self._server, self._client
        self._sides = (self._client, self._server)

    @property
    def request_bytes(self) -> int:
        """Bytes received from the client."""
        return self._client.received

    @property
    def response_bytes(self) -> int:
        """Bytes received from the server."""
        return self._server.received

    def pass_on(self, side: Side, chunk: bytes, at: int) -> None:
        """Write the bytes read from `side` to its peer, then copy them to the tap."""
        failure = side.peer.send(chunk)
        if self._tapped is not None:
            self._tapped.streams[side.direction].receive_data(chunk, at)
        if failure is not None:
            side.peer.lose(failure)

    async def run(self) -> None:
        """Relay until both sides are closed, then report the end of the connection to the tap."""
        try:
            for side in self._sides:
                side.start()
            await self._finished.wait()
        finally:
            self.abort()
            if self._tapped:
                by, how = self._ending or ConnectionEnd("proxy", "reset")
                self._tapped.close(by, how, time.time_ns(), self.request_bytes, self.response_bytes)

    def close(self) -> None:
        """Send the bytes already read, then close both sides."""
        self._ending = self._ending or ConnectionEnd("proxy", "shutdown")
        for side in self._sides:
            side.close()

    def abort(self) -> None:
        """Close both sides immediately with a reset, because the bytes sent to them may be incomplete."""
        for side in self._sides:
            side.reset()

    def set_backpressure(self, active: bool) -> None:
        """Stop reading until the inspector has caught up if `active`, otherwise resume."""
        for side in self._sides:
            if active:
                side.hold(HoldReason.TAP)
            else:
                side.release(HoldReason.TAP)

    def half_closed(self, side: Side) -> None:
        """Pass on that this side's client or server has stopped sending; the other direction may continue."""
        self._record_end(side, "fin")
        if side.peer.ended:
            for open_side in self._sides:
                open_side.close()
        else:
            side.peer.finish()

    def socket_closed(self, side: Side, error: OSError | None) -> None:
        """Close the other side, because this side's socket has closed; `error` is set if peer or network closed it."""
        if error is not None:
            self._record_end(side, "reset")
        if side.peer.gone:
            self._finished.set()
        elif self._ending and self._ending.how in ("reset", "tls"):
            side.peer.reset()
        else:
            side.peer.close()

    def tls_failed(self, side: Side, error: TlsError) -> None:
        """Record that TLS with this side's client or server failed."""
        name = _SIDES[side.direction]
        by = name if error.by_peer else "proxy"
        self._ending = self._ending or ConnectionEnd(by, "tls")
        if self._tapped is not None:
            self._tapped.tls_failed(name, by, error.reason, None, error.detail, time.time_ns())

    def _make_side(self, direction: Direction, sock: socket.socket, buffer: memoryview, tls: TlsStream | None) -> Side:
        if tls is None:
            return Side(self, direction, sock, buffer)
        return TlsSide(self, direction, sock, buffer, tls)

    def _record_end(self, side: Side, how: str) -> None:
        if self._ending is None:
            self._ending = ConnectionEnd(_SIDES[side.direction], how)
        elif self._ending.how == "fin":
            self._ending = self._ending._replace(how=how)
        if self._tapped:
            self._tapped.streams[side.direction].end(how, time.time_ns())
