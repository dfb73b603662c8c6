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
    """Decrypts what the peer sends and encrypts what it receives.

    A close_notify ends its direction like the FIN of a plain socket. If the socket ends without one, the other side
    ends without one too, so a truncation remains visible.

    Args:
        connection, direction, sock, buffer: As for `Side`.
        stream: Established on this socket.
    """

    def __init__(
        self, connection: SideOwner, direction: Direction, sock: socket.socket, buffer: memoryview, stream: TlsStream
    ) -> None:
        super().__init__(connection, direction, sock, buffer)
        self._stream = stream
        self._early = True  # the handshake may have brought plaintext

    def start(self) -> None:
        """Start reading, beginning with data that arrived with the handshake."""
        super().start()
        if self._early and not self._held and not self.ended:
            self._early = False
            self._receive(b"")

    def finish(self) -> None:
        """Send close_notify, and shut down for writing once everything is sent."""
        self._notify()
        super().finish()

    def close(self) -> None:
        """Stop reading; close the socket once everything is sent, including close_notify."""
        self._stop_reading()
        self._notify()
        super().close()

    def send(self, chunk: bytes) -> OSError | None:
        """As `Side.send`, encrypted."""
        if self.gone:
            return None
        try:
            encrypted = self._stream.send(chunk)
        except ssl.SSLError as error:
            return error
        return super().send(encrypted)

    def _receive(self, data: bytes | memoryview) -> None:
        """Decrypt and pass on; then do what TLS itself requires."""
        stream = self._stream
        plaintext = stream.receive_data(data)
        if plaintext:
            self.received += len(plaintext)
            self._connection.pass_on(self, plaintext, time.time_ns())
        if self.gone:
            return
        if (answer := stream.data_to_send()) and (failed := super().send(answer)) is not None:
            self.lose(failed)
        elif stream.failure is not None:
            error = tls_error(stream.failure, anonymous=stream.anonymous, own_certificate=stream.own)
            self._connection.tls_failed(self, error)
            self.lose(error)
        elif stream.closed:
            super()._receive_end()

    def _receive_end(self) -> None:
        """The socket has ended, perhaps without close_notify."""
        self.truncated = True
        super()._receive_end()

    def _notify(self) -> None:
        """Send close_notify, unless it would hide a truncation on the other side."""
        if not (self.gone or self.peer.truncated) and (goodbye := self._stream.end()):
            super().send(goodbye)  # a failure appears when the socket is shut down or closed
