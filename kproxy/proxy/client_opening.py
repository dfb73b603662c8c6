"""ConnectionSetup: what happens to a client between accept and the first relayed byte."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from typing import Any

from kproxy.proxy.listener import Listener
from kproxy.proxy.own_addresses import OwnAddresses
from kproxy.proxy.shortage import close_reason
from kproxy.proxy.sockets import address_text, connect, set_tcp_options
from kproxy.proxy.tap import Tap
from kproxy.proxy.tapped_connection import TappedConnection
from kproxy.proxy.tls.failure import TlsError
from kproxy.proxy.tls.handshake import HANDSHAKE_TIMEOUT_S, shake_hands
from kproxy.proxy.tls.stream import TlsStream


class ConnectionSetup:
    """Connects a client to its upstream, with TLS on either side if the listener requires it.

    Attributes:
        listener: The client's listener. The host name in its TLS handshake may select another one.
        tls: The TLS streams of the client and the upstream, if established.

    Args:
        number: The number of the connection in the trace.
        accepted: The client's socket.
        client: The client's address.
        listener: The listener that accepted the client.
        own_addresses: The addresses of this proxy, which the upstream must not have.
    """

    def __init__(
        self, number: int, accepted: socket.socket, client: str, listener: Listener, own_addresses: OwnAddresses
    ) -> None:
        self._own_addresses = own_addresses
        self.listener = listener
        self.tls: tuple[TlsStream | None, TlsStream | None] = (None, None)
        self._number = number
        self._accepted_at = time.time_ns()
        self._accepted = accepted
        self._client = client
        self._local_address = address_text(accepted.getsockname(), accepted.family)
        self._current_peer = "client"  # the peer that the current step deals with

    @property
    def at_upstream(self) -> bool:
        """Whether the client is ready and the upstream is being connected."""
        return self._current_peer == "server"

    async def open_client(self, timeout_s: float) -> str | None:
        """Establish TLS if the listener uses it; return the host name that the client requested (SNI).

        Raises:
            TlsError: The handshake failed; the client got an alert.
        """
        if self.listener.tls.client is None:
            return None
        set_tcp_options(self._accepted)
        stream = await shake_hands(self._accepted, self.listener.tls.client, timeout_s=timeout_s)
        self.tls = (stream, None)
        return stream.requested_name

    async def open_upstream(self, connect_timeout_s: float, handshake_timeout_s: float) -> socket.socket:
        """Connect to the upstream, using TLS if the listener requires it.

        Raises:
            OSError: The upstream is unreachable; a `TlsError` if the handshake failed; a `ProxyLoopError` if it is
                this proxy.
        """
        self._current_peer = "server"
        certificate = None if self.tls[0] is None else self.tls[0].peer_certificate
        await asyncio.sleep(0)  # if the client is this proxy, the task of that connection must call `link` first
        self._own_addresses.check_for_loop(self._client, self._local_address)
        client = self._client.rpartition(":")[0].strip("[]")
        upstream, stream = await connect_upstream(
            self.listener,
            connect_timeout_s,
            handshake_timeout_s,
            client=client,
            certificate=certificate,
            own_addresses=self._own_addresses,
        )
        self.tls = (self.tls[0], stream)
        return upstream

    def announce(self, tap: Tap, upstream: socket.socket | None = None) -> TappedConnection:
        """Announce the connection to the tap; `upstream` is the socket connected to the server."""
        server = str(self.listener.upstream)
        if upstream is not None and self.listener.dial is None:
            server = address_text(upstream.getpeername(), upstream.family)
        uses_tls = self.listener.tls.client is not None
        plaintext_upstream = uses_tls and self.listener.tls.upstream is None and self.listener.dial is None
        return tap.open(
            self._number,
            self._accepted_at,
            self._client,
            server,
            self._local_address,
            tls=uses_tls,
            plaintext_upstream=plaintext_upstream,
        )

    def report_failure(self, tap: Tap, error: OSError | None) -> None:
        """Report to the tap that nothing is relayed on the connection. No error means that the relay is ending."""
        tapped = self.announce(tap)
        by, how = "proxy", "shutdown" if error is None else close_reason(error)
        now = time.time_ns()
        if isinstance(error, TlsError):
            by, how = self._current_peer if error.by_peer else "proxy", "tls"
            if self.at_upstream or not error.silent:
                server_name = self.listener.upstream_name if self.at_upstream else None
                tapped.tls_failed(self._current_peer, by, error.reason, server_name, error.detail, now)
        tapped.close(by, how, now, 0, 0)


async def connect_upstream(
    listener: Listener,
    connect_timeout_s: float,
    handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
    *,
    client: str = "127.0.0.1",
    certificate: Mapping[str, Any] | None = None,
    own_addresses: OwnAddresses | None = None,
) -> tuple[socket.socket, TlsStream | None]:
    """Connect to the upstream of a listener, using TLS if the listener requires it.

    `client` and `certificate` are for a server in this process, see `Dial`. `own_addresses` are those of this proxy,
    which the upstream must not have.

    Raises:
        OSError: The upstream is unreachable; a `TlsError` if the handshake failed.
    """
    if listener.dial is not None:
        return await listener.dial(client, certificate), None
    if own_addresses is None:
        upstream = await connect(listener.upstream, connect_timeout_s)
    else:
        upstream = await connect(listener.upstream, connect_timeout_s, own_addresses.check)
    try:
        set_tcp_options(upstream)
        if listener.tls.upstream is None:
            return upstream, None
        server_name = listener.upstream_name
        return upstream, await shake_hands(upstream, listener.tls.upstream, server_name, timeout_s=handshake_timeout_s)
    except BaseException:
        upstream.close()
        raise


async def check_upstream(
    listener: Listener, timeout_s: float = 3.0, own_addresses: OwnAddresses | None = None
) -> OSError | None:
    """Connect to the upstream and disconnect; return the error if that failed, else None."""
    try:
        upstream, stream = await connect_upstream(listener, timeout_s, timeout_s, own_addresses=own_addresses)
    except OSError as error:
        return error
    with upstream:
        if stream is not None:
            await asyncio.get_running_loop().sock_sendall(upstream, stream.end())
    return None
