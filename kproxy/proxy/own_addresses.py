"""OwnAddresses: recognizes an upstream that is a listener of the same proxy.

Each client of such a proxy would make it connect to itself as another client, until no file descriptors are left.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os.path import normpath
from typing import Any, Final

from kproxy.proxy.address import Address
from kproxy.proxy.bound_listeners import BoundListeners
from kproxy.proxy.sockets import address_text, resolve

#: Connections of other programs can have the same local address if they lead elsewhere, but not this many in a row.
MAX_ROUNDS: Final = 8
_LOOKUP_S: Final = 3.0


class ProxyLoopError(OSError):
    """The upstream is a listener of the same proxy; `listener` is its address."""

    def __init__(self, listener: str) -> None:
        super().__init__(f"it is this proxy's own listener {listener}")
        self.listener = listener


class OwnAddresses:
    """The addresses of the open listeners, and of the proxy's own connections to upstreams."""

    def __init__(self, listeners: BoundListeners) -> None:
        self._listeners = listeners
        self._rounds: dict[str, int] = {}  # for open connections to upstreams, by their local address

    def check(self, family: int, target: Any) -> None:
        """Check an address that the proxy is about to connect to, as `socket.connect` takes it.

        Raises:
            ProxyLoopError: It is the address of one of the listeners.
        """
        for bound in self._listeners.open:
            for acceptor in bound.acceptors:
                if _reaches(family, target, acceptor.family, acceptor.address):
                    raise ProxyLoopError(acceptor.name)

    def check_for_loop(self, client: str, listener: str) -> None:
        """Check a client before its upstream is connected; `client` and `listener` are addresses as in traces.

        A port forward can lead from an upstream back to this proxy, although no address shows it. Each connection to
        the upstream then arrives here as a new client, from the address that the proxy has just connected from.

        Raises:
            ProxyLoopError: There are `MAX_ROUNDS` such connections in a row.
        """
        if self._rounds.get(client, 0) >= MAX_ROUNDS:
            raise ProxyLoopError(listener)

    @contextmanager
    def link(self, client: str, upstream: socket.socket) -> Iterator[None]:
        """Note, while the block lasts, that this client is connected to this upstream."""
        if upstream.family == socket.AF_UNIX:
            yield
            return
        local = address_text(upstream.getsockname(), upstream.family)
        self._rounds[local] = self._rounds.get(client, 0) + 1
        try:
            yield
        finally:
            self._rounds.pop(local, None)

    async def listener_at(self, upstream: Address) -> str | None:
        """Return the own listener at this address; None if there is none, or the host name cannot be resolved now."""
        with suppress(OSError):  # also a timeout
            async with asyncio.timeout(_LOOKUP_S):
                targets = await resolve(upstream)
            try:
                for target in targets:
                    self.check(*target)
            except ProxyLoopError as error:
                return error.listener
        return None


def _reaches(family: int, target: Any, listening_family: int, listening: Any) -> bool:
    """Return whether a connection to `target` reaches the socket that listens on `listening`."""
    if socket.AF_UNIX in (family, listening_family):
        return family == listening_family and normpath(target) == normpath(listening)
    if target[1] != listening[1]:
        return False
    host, listening_host = _parse_ip(target[0]), _parse_ip(listening[0])
    if host.version != listening_host.version:
        return False
    if host.is_unspecified:  # the system connects to loopback
        return listening_host.is_unspecified or listening_host.is_loopback
    return host == listening_host or (listening_host.is_unspecified and _is_local(host))


def _parse_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_local(host: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether the address belongs to this machine: only then can a socket be bound to it."""
    family = socket.AF_INET if host.version == 4 else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.bind((str(host), 0))
        return True
    return False
