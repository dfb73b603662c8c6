"""Listeners: where clients come, and where their connections lead."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from kproxy.proxy.acceptor import Acceptor
from kproxy.proxy.address import Address, TcpAddress
from kproxy.proxy.tls.contexts import PLAINTEXT, TlsPolicy

#: Connects to a server in this process. It takes the client's IP address, and its certificate as from
#: `ssl.SSLSocket.getpeercert` (None without one), and returns a connected, non-blocking socket. Raises OSError.
Dial: TypeAlias = Callable[[str, Mapping[str, Any] | None], Awaitable[socket.socket]]


@dataclass(frozen=True, slots=True)
class Listener:
    """Where to listen, where the connections that come there lead, and which of the two ends use TLS.

    With `dial`, they lead to a server in this process, and `upstream` is only its name.
    """

    listen: Address
    upstream: Address
    tls: TlsPolicy = PLAINTEXT
    dial: Dial | None = None

    @property
    def upstream_name(self) -> str:
        """The host name of the upstream, as SNI and in its certificate."""
        if self.tls.upstream_name is not None:
            return self.tls.upstream_name
        host = self.upstream.host if isinstance(self.upstream, TcpAddress) else None
        return host or "localhost"


@dataclass(slots=True, eq=False)
class BoundListener:
    """A listener with its sockets; `listener` may get another upstream at any time.

    `bootstrap` is the listener of the command line that it was opened for, None if it is one itself.
    """

    listener: Listener
    acceptors: Sequence[Acceptor] = ()
    bootstrap: BoundListener | None = field(default=None, repr=False)

    @property
    def now(self) -> Listener:
        """What holds for the next connection: a broker's listener has the TLS that its bootstrap listener has now."""
        if self.bootstrap is None:
            return self.listener
        return replace(self.listener, tls=self.bootstrap.listener.tls)

    @property
    def port(self) -> int:
        """The port that a listener on TCP has, be it one that the system chose."""
        return int(self.acceptors[0].name.rpartition(":")[2])

    @property
    def hosts(self) -> list[str]:
        """The IP addresses that a listener on TCP has."""
        return [acceptor.name.rpartition(":")[0].strip("[]") for acceptor in self.acceptors]

    @property
    def is_open(self) -> bool:
        """Whether it is listened on."""
        return any(acceptor.is_open for acceptor in self.acceptors)

    def close(self) -> None:
        """Listen no more; connections go on."""
        for acceptor in self.acceptors:
            acceptor.close()
