"""TLS without sockets: turns ciphertext into plaintext and back."""

from __future__ import annotations

import contextlib
import ssl
from typing import Any, Final

from kproxy.proxy.tls.own_certificate import OwnCertificate

_READ_BYTES: Final = 64 * 1024  # OpenSSL gives one record at a time, 16 KiB at most
_HANDSHAKE_RECORD: Final = 0x16
_ALERT_RECORD: Final = 0x15
_SSL2_HELLO: Final = 0x80  # the high bit of the two-byte length that begins an SSL 2 hello


class _SslObject(ssl.SSLObject):
    """One end of a connection, with the host name that the client requested."""

    requested_name: str | None = None


class TlsStream:
    """One end of a TLS connection; the context decides whether it is the server or the client.

    Pass received bytes to `receive_data`; write what `data_to_send` and `send` return to the socket. The peer's bytes
    never raise an exception: `failure` is set instead. Once it is, `data_to_send` has the alert for the peer.

    Attributes:
        established: Whether the handshake is complete.
        closed: Whether the peer has sent close_notify, its last message. Without it, received data may be truncated.
        failure: The error that ended the connection.
        plaintext: Whether the peer's first bytes are not TLS.
        own: The certificate that this end sends, if it has one.

    Args:
        context: A context from `kproxy.proxy.tls.contexts`.
        server_name: For a client: the name to send as SNI and to expect in the certificate.

    Raises:
        ValueError, TypeError: `server_name` is not a valid host name.
    """

    def __init__(self, context: ssl.SSLContext, server_name: str | None = None) -> None:
        self.established = False
        self.closed = False
        self.plaintext = False
        self.own: OwnCertificate | None = getattr(context, "own", None)
        self.failure: ssl.SSLError | None = None
        self._has_received = self._has_ended = False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = context.protocol == ssl.PROTOCOL_TLS_SERVER
        self._object = context.wrap_bio(self._incoming, self._outgoing, is_server, server_name)

    @property
    def anonymous(self) -> bool:
        """Whether this end is a client without a certificate to send."""
        return self.own is None and not self._object.server_side

    @property
    def requested_name(self) -> str | None:
        """The name that the client sent as SNI; None if there was none, or if this end is the client."""
        return self._object.requested_name if isinstance(self._object, _SslObject) else None

    @property
    def peer_certificate(self) -> dict[str, Any] | None:
        """The verified certificate of the peer, see `ssl.SSLSocket.getpeercert`; None without one."""
        return self._object.getpeercert() or None

    def receive_data(self, data: bytes | memoryview) -> bytes:
        """Process received bytes, in chunks of any size; return the plaintext that they complete.

        A client begins with an empty chunk: then `data_to_send` has the ClientHello. The call that completes the
        handshake returns nothing; the next call returns the plaintext that arrived with it.
        """
        if self.failure is not None:
            return b""
        if data:
            if not self._has_received:
                self._has_received = True
                self.plaintext = data[0] not in (_HANDSHAKE_RECORD, _ALERT_RECORD) and not data[0] & _SSL2_HELLO
            self._incoming.write(data)
        if not self.established:
            self._shake_hands()
            return b""
        return self._decrypt()

    def data_to_send(self) -> bytes:
        """Return the bytes to send for the handshake, an alert or a key update."""
        return self._outgoing.read()

    def send(self, plaintext: bytes) -> bytes:
        """Encrypt plaintext; return the bytes to write to the socket.

        Raises:
            ssl.SSLError: The connection can no longer send.
        """
        sent_size = 0
        view = memoryview(plaintext)
        while sent_size < len(plaintext):
            sent_size += self._object.write(view[sent_size:])
        return self._outgoing.read()

    def end(self) -> bytes:
        """Stop sending; return the close_notify to write to the socket, only on the first call."""
        if self.established and self.failure is None and not self._has_ended:
            self._has_ended = True
            with contextlib.suppress(ssl.SSLError):  # SSLWantReadError: no need to wait for the peer's close_notify
                self._object.unwrap()
        return self._outgoing.read()

    def _shake_hands(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.failure = error
        else:
            self.established = True

    def _decrypt(self) -> bytes:
        chunks = []
        try:
            while chunk := self._object.read(_READ_BYTES):
                chunks.append(chunk)
            self.closed = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.closed = True
        except ssl.SSLError as error:
            self.failure = error
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def keep_requested_name(context: ssl.SSLContext) -> None:
    """Make a server's context store the host name that each client requests, in `TlsStream.requested_name`."""
    context.sslobject_class = _SslObject

    def store_name(tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        if isinstance(tls, _SslObject):
            tls.requested_name = name

    context.sni_callback = store_name
