"""Addresses as text: what can be said of two of them without a resolver."""

from __future__ import annotations

import functools
import ipaddress

#: What every address of the machine itself is called here.
LOOPBACK = "loopback"


def split(address: str) -> tuple[str, int] | None:
    """Host and port of ``host:port`` or ``[v6]:port``, None if it is neither (a Unix socket)."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        return None
    return canonical(host), int(port)


def join(host: str, port: int) -> str:
    """``host:port``, or ``[v6]:port``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """The host of ``host:port``, as it stands there."""
    return address.rpartition(":")[0]


def is_local(address: str) -> bool:
    """Whether ``host:port`` is loopback, or the address is a Unix socket: what goes there is on no wire."""
    return address.startswith("unix:") or canonical(host_of(address)) == LOOPBACK


@functools.lru_cache(maxsize=4096)
def canonical(host: str) -> str:
    """One spelling of a host: names in lower case, IPv6 in short, all of loopback as `LOOPBACK`."""
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
    """Whether a host is an address, `localhost` among them, and no name that may lead anywhere."""
    known = canonical(host)
    return known == LOOPBACK or is_fixed(known)


@functools.lru_cache(maxsize=4096)
def is_fixed(host: str) -> bool:
    """Whether a canonical host is an IP address that says by itself which machine it is: no name, no loopback."""
    try:
        return not ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
