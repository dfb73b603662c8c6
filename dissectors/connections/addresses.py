"""Parse and compare addresses without a resolver."""

from __future__ import annotations

import functools
import ipaddress

from dissectors.bounded import MAX_NAME_LENGTH

#: Identifies a client across its connections: host without port, truncated client id.
ClientKey = tuple[str, str]

#: The canonical name of every loopback address.
LOOPBACK = "loopback"


def split(address: str) -> tuple[str, int] | None:
    """Return host and port of ``host:port`` or ``[v6]:port``; None for other addresses, e.g. a Unix socket."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        return None
    return canonicalize_host(host), int(port)


def join(host: str, port: int) -> str:
    """Return ``host:port``, or ``[v6]:port``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """Return the host of ``host:port``, unchanged."""
    return address.rpartition(":")[0]


def client_of(address: str, client_id: str | None) -> ClientKey:
    """Return the key of the client that connects from ``host:port`` with a client id."""
    return host_of(address), (client_id or "")[:MAX_NAME_LENGTH]


def is_local(address: str) -> bool:
    """Whether an address is loopback or a Unix socket, so that traffic to it does not leave the machine."""
    return address.startswith("unix:") or canonicalize_host(host_of(address)) == LOOPBACK


@functools.lru_cache(maxsize=4096)
def canonicalize_host(host: str) -> str:
    """Return the canonical form of a host: lower-case names, compressed IPv6, `LOOPBACK` for all loopback addresses."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return LOOPBACK
    try:
        ip = ipaddress.ip_address(name)
    except ValueError:
        return name
    mapped = getattr(ip, "ipv4_mapped", None) or ip
    return LOOPBACK if mapped.is_loopback else str(mapped)


def is_address(host: str) -> bool:
    """Whether a host is an IP address or `localhost`, not a name that has to be resolved."""
    name = canonicalize_host(host)
    return name == LOOPBACK or is_specific_ip(name)


@functools.lru_cache(maxsize=4096)
def is_specific_ip(host: str) -> bool:
    """Whether a canonical host is an IP address of one machine: not a name, loopback, or the unspecified address."""
    try:
        return not ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
