"""TLS handshakes on connected sockets. Each waits only for its own peer, with a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from typing import Final

from dissectors.connections.tls_failures import TlsReason
from kproxy.proxy.tls.failure import TlsError, tls_error
from kproxy.proxy.tls.stream import TlsStream

HANDSHAKE_TIMEOUT_S: Final = 10.0
_READ_BYTES: Final = 32 * 1024


async def shake_hands(
    sock: socket.socket,
    context: ssl.SSLContext,
    server_name: str | None = None,
    *,
    timeout_s: float = HANDSHAKE_TIMEOUT_S,
) -> TlsStream:
    """Establish TLS on a non-blocking socket, which the caller still owns.

    Args:
        sock: A connected socket from which nothing has been read.
        context: The context of a server or a client.
        server_name: For a client: the name to send as SNI and to expect in the certificate.
        timeout_s: The timeout for the whole handshake.

    Raises:
        TlsError: TLS cannot be established. The alert and the end of the stream have been sent to the peer.
    """
    try:
        stream = TlsStream(context, server_name)
    except (ValueError, TypeError) as error:  # brokers can advertise any text as their host
        raise TlsError(TlsReason.OTHER, detail=f"{server_name!r} cannot be the name of a server: {error}") from None
    progress = _Progress()
    try:
        async with asyncio.timeout(timeout_s):
            await _exchange(sock, stream, progress)
    except TimeoutError:
        raise TlsError(TlsReason.TIMEOUT, silent=progress.silent) from None
    except OSError as error:
        raise TlsError(TlsReason.CLOSED, by_peer=True, detail=str(error.strerror or error)) from None
    if stream.established:
        return stream
    _send_alert(sock, stream)
    if stream.plaintext:
        raise TlsError(TlsReason.PLAINTEXT)
    if stream.failure is None:
        raise TlsError(TlsReason.CLOSED, by_peer=True, silent=progress.silent)
    if stream.failure.errno == ssl.SSL_ERROR_SYSCALL and (path := context.keylog_filename):
        # Memory buffers do not fail, so the key log did. Without it, later connections succeed.
        context.keylog_filename = None  # type: ignore[assignment]
        raise TlsError(TlsReason.OTHER, detail=f"{path} cannot be written, so kproxy logs no more TLS secrets")
    raise tls_error(
        stream.failure, anonymous=stream.anonymous, own_certificate=stream.own, names=_possible_names(sock, stream)
    )


class _Progress:
    """How far a handshake got: `silent` means that the peer has sent nothing yet."""

    silent = True


async def _exchange(sock: socket.socket, stream: TlsStream, progress: _Progress) -> None:
    """Exchange messages until the handshake is complete or has failed, or the peer has closed."""
    loop = asyncio.get_running_loop()
    stream.receive_data(b"")
    while not (stream.failure or stream.plaintext):
        if answer := stream.data_to_send():
            await loop.sock_sendall(sock, answer)
        if stream.established or not (received := await loop.sock_recv(sock, _READ_BYTES)):
            return
        progress.silent = False
        stream.receive_data(received)


def _possible_names(sock: socket.socket, stream: TlsStream) -> list[str]:
    """Return the names by which a client may know this end: many send SNI only for host names that have a dot."""
    if stream.requested_name is not None:
        return [stream.requested_name]
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return []
    address = ipaddress.ip_address(sock.getsockname()[0].partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    return [str(address), "localhost"] if address.is_loopback else [str(address)]


def _send_alert(sock: socket.socket, stream: TlsStream) -> None:
    """Send the alert, if the system accepts it at once."""
    with contextlib.suppress(OSError):
        sock.send(stream.data_to_send())
        sock.shutdown(socket.SHUT_WR)
