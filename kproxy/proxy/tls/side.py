"""TlsSide: a side of a relayed connection whose peer uses TLS."""

from __future__ import annotations

import socket
import ssl
import time

from dissectors.connections.events import Direction
from kproxy.proxy.side import Side, SideOwner
from kproxy.proxy.tls.failure import tls_error
from kproxy.proxy.tls.stream import TlsStream


class TlsSide(Side):
    """Decrypts the bytes that arrive on the socket and encrypts those that are sent.

    A close_notify ends its direction like the FIN of a plain socket. If the socket ends without one, the other side
    also ends without one, so a truncation remains visible.

    Args:
        connection, direction, sock, buffer: As for `Side`.
        stream: The TLS stream established on this socket.
    """

    def __init__(
        self, connection: SideOwner, direction: Direction, sock: socket.socket, buffer: memoryview, stream: TlsStream
    ) -> None:
        super().__init__(connection, direction, sock, buffer)
        self._stream = stream
        self._has_early_data = True  # plaintext may have arrived with the handshake

    def start(self) -> None:
        """Start reading, beginning with data that arrived with the handshake."""
        super().start()
        if self._has_early_data and not self._held and not self.ended:
            self._has_early_data = False
            self._receive(b"")

    def finish(self) -> None:
        """Send close_notify, and shut down for writing once everything is sent."""
        self._send_close_notify()
        super().finish()

    def close(self) -> None:
        """Stop reading; close the socket once everything is sent, including close_notify."""
        self._stop_reading()
        self._send_close_notify()
        super().close()

    def send(self, chunk: bytes) -> OSError | None:
        """Encrypt a chunk, then send it like `Side.send`."""
        if self.gone:
            return None
        try:
            encrypted = self._stream.send(chunk)
        except ssl.SSLError as error:
            return error
        return super().send(encrypted)

    def _receive(self, data: bytes | memoryview) -> None:
        """Decrypt bytes and pass the plaintext on; then answer the peer or end, as TLS requires."""
        stream = self._stream
        plaintext = stream.receive_data(data)
        if plaintext:
            self.received += len(plaintext)
            self._connection.pass_on(self, plaintext, time.time_ns())
        if self.gone:
            return
        if (answer := stream.data_to_send()) and (send_error := super().send(answer)) is not None:
            self.lose(send_error)
        elif stream.failure is not None:
            error = tls_error(stream.failure, anonymous=stream.anonymous, own_certificate=stream.own)
            self._connection.tls_failed(self, error)
            self.lose(error)
        elif stream.closed:
            super()._receive_end()

    def _receive_end(self) -> None:
        """Note that the socket has ended without a close_notify, and stop reading."""
        self.truncated = True
        super()._receive_end()

    def _send_close_notify(self) -> None:
        """Send close_notify, unless it would hide a truncation on the other side."""
        if not (self.gone or self.peer.truncated) and (close_notify := self._stream.end()):
            super().send(close_notify)  # a failure appears when the socket is shut down or closed
