"""A connection to a broker that sends bytes unchanged and receives frames."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from dataclasses import dataclass
from typing import Final

from dissectors.wire.limits import MAX_FRAME_BYTES
from kproxy.errors import UNREACHABLE, UserError
from kproxy.proxy import sockets
from kproxy.proxy.address import Address, TcpAddress

_TLS_ALERT: Final = b"\x15\x03"
_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The TLS settings of a connection: the context, and the server name to send and expect (None: the host's name)."""

    context: ssl.SSLContext
    server_name: str | None = None


class NoResponse(Exception):
    """Raised if no complete response arrived. `closed` is whether the broker disconnected.

    The message can be shown to the user as it is.
    """

    def __init__(self, message: str, *, closed: bool) -> None:
        super().__init__(message)
        self.closed = closed


class BrokerConnection:
    """A connection, opened by `connect`. `timeout_s` is the time that each response may take.

    `last_sent` has the bytes of the last `send`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout_s: float) -> None:
        self._reader, self._writer, self._timeout_s = reader, writer, timeout_s
        self._received = bytearray()
        self._correlation_ids = itertools.count(1)
        self.last_sent = b""

    def next_correlation_id(self) -> int:
        """Return the next correlation id, counted from 1."""
        return next(self._correlation_ids)

    def send(self, data: bytes) -> None:
        """Send bytes as they are, in the background. If the connection breaks, `receive` reports it."""
        self.last_sent = data
        self._writer.write(data)

    def end(self) -> None:
        """End the sending side (FIN) after all queued bytes; with TLS, which has no half-close, close both sides."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        else:
            self._writer.close()

    async def receive(self, timeout_s: float | None = None) -> bytes:
        """Receive the next frame, with its length prefix. `timeout_s` replaces the time limit of the connection.

        Raises:
            NoResponse: The connection was closed, or time ran out, before a whole frame arrived.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                while (size := self._frame_size()) is None or len(self._received) < size:
                    data = await self._reader.read(_CHUNK)
                    if not data:
                        raise self._no_response("the broker closed the connection", closed=True)
                    self._received += data
        except TimeoutError:
            raise self._no_response(f"no response within {timeout_s:g} s") from None
        except OSError as error:
            raise self._no_response(f"the connection broke: {sockets.reason(error)}", closed=True) from None
        frame = bytes(self._received[:size])
        del self._received[:size]
        return frame

    def close(self) -> None:
        """Close the connection immediately, and ignore errors."""
        self._writer.transport.abort()

    def _frame_size(self) -> int | None:
        """Return the size of the next frame including its length prefix, None while the prefix is incomplete."""
        if len(self._received) < 4:
            return None
        size = int.from_bytes(self._received[:4], "big", signed=True)
        if self._received.startswith(_TLS_ALERT):
            raise self._no_response("the broker answers with a TLS alert: pass --tls")
        if not 0 <= size <= MAX_FRAME_BYTES:
            raise self._no_response(
                f"the response's length prefix is {size}: this is not Kafka's protocol, or a response of more than "
                f"{MAX_FRAME_BYTES >> 20} MiB"
            )
        return size + 4

    def _no_response(self, sentence: str, *, closed: bool = False) -> NoResponse:
        count = len(self._received)
        return NoResponse(sentence + (f" after {count} bytes of a response" if count else ""), closed=closed)


async def connect(address: Address, timeout_s: float, tls: ClientTls | None = None) -> BrokerConnection:
    """Connect to a broker, and complete the TLS handshake if `tls` is given.

    Raises:
        UserError: Nothing listens there, or the handshake fails; the status is UNREACHABLE.
    """
    try:
        sock = await sockets.connect(address, timeout_s)
        sockets.set_tcp_options(sock)
    except OSError as error:
        raise UserError(
            f"cannot connect to {address}: {sockets.reason(error)}; is the broker running?", UNREACHABLE
        ) from None
    if tls is None:
        return BrokerConnection(*await asyncio.open_connection(sock=sock), timeout_s)
    host = address.host if isinstance(address, TcpAddress) else None
    try:
        streams = await asyncio.open_connection(
            sock=sock,
            ssl=tls.context,
            server_hostname=tls.server_name or host or "localhost",
            ssl_handshake_timeout=timeout_s,
        )
    except ssl.SSLCertVerificationError as error:
        raise UserError(
            f"{address}: certificate rejected: {error.verify_message}; pass --ca PEM, --sni NAME or --insecure",
            UNREACHABLE,
        ) from None
    except OSError as error:
        reason = error.reason.replace("_", " ").lower() if isinstance(error, ssl.SSLError) and error.reason else ""
        raise UserError(
            f"{address}: the TLS handshake fails ({reason or 'the broker closed the connection'}); check whether this "
            "port expects TLS",
            UNREACHABLE,
        ) from None
    return BrokerConnection(*streams, timeout_s)
