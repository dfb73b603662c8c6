"""Listeners: addresses for clients, and the upstreams of their connections."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from kproxy.proxy.acceptor import Acceptor
from kproxy.proxy.address import Address, TcpAddress
from kproxy.proxy.tls.contexts import PLAINTEXT, TlsPolicy

#: Connects to a server in this process. It takes the client's IP address, and its certificate as returned by
#: `ssl.SSLSocket.getpeercert` (None without one), and returns a connected, non-blocking socket. May raise OSError.
Dial: TypeAlias = Callable[[str, Mapping[str, Any] | None], Awaitable[socket.socket]]


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen on, the upstream of its connections, and the TLS of both ends.

    With `dial`, the upstream is a server in this process, and `upstream` is only its name.
    """

    listen: Address
    upstream: Address
    tls: TlsPolicy = PLAINTEXT
    dial: Dial | None = None

    @property
    def upstream_name(self) -> str:
        """The host name of the upstream, to send as SNI and to expect in its certificate."""
        if self.tls.upstream_name is not None:
            return self.tls.upstream_name
        host = self.upstream.host if isinstance(self.upstream, TcpAddress) else None
        return host or "localhost"


@dataclass(slots=True, eq=False)
class BoundListener:
    """A listener with its sockets; `listener` may get another upstream at any time.

    With ``--advertise``, `bootstrap` of a broker's listener is the configured listener that it was opened for.
    """

    listener: Listener
    acceptors: Sequence[Acceptor] = ()
    bootstrap: BoundListener | None = field(default=None, repr=False)

    @property
    def now(self) -> Listener:
        """The listener for the next connection. A broker's listener has the current TLS of its bootstrap listener."""
        if self.bootstrap is None:
            return self.listener
        return replace(self.listener, tls=self.bootstrap.listener.tls)

    @property
    def port(self) -> int:
        """The TCP port, even if the system chose it."""
        return int(self.acceptors[0].name.rpartition(":")[2])

    @property
    def hosts(self) -> list[str]:
        """The IP addresses of a TCP listener."""
        return [acceptor.name.rpartition(":")[0].strip("[]") for acceptor in self.acceptors]

    @property
    def is_open(self) -> bool:
        """Whether the listener has an open socket."""
        return any(acceptor.is_open for acceptor in self.acceptors)

    def close(self) -> None:
        """Close the sockets. Connections stay open."""
        for acceptor in self.acceptors:
            acceptor.close()
