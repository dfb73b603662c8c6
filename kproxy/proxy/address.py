"""Parses the addresses of ``--listen`` and ``--upstream``."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TypeAlias

_UNIX = "unix:"
_MAX_UNIX_PATH = 107  # bytes; sun_path without its terminating zero


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host name or IP address, and a port. A host of None means loopback, both IPv4 and IPv6."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or "localhost"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix socket in the file system."""

    path: str

    def __str__(self) -> str:
        return _UNIX + self.path


Address: TypeAlias = TcpAddress | UnixAddress


def parse_listen(text: str, option: str = "--listen") -> Address:
    """Parse ``9092`` or ``:9092`` (loopback), ``HOST:9092``, ``[::1]:9092`` or ``unix:/path``. Port 0 takes a free one.

    `option` names the command-line option in error messages.

    Raises:
        ValueError: One sentence with the valid form.
    """
    return _parse(text, option, min_port=0)


def parse_upstream(text: str, option: str = "--upstream") -> Address:
    """Parse ``HOST:9092``, ``[::1]:9092``, ``unix:/path``, or ``9092`` for a broker on this machine.

    `option` names the command-line option in error messages.

    Raises:
        ValueError: One sentence with the valid form.
    """
    return _parse(text, option, min_port=1)


def _parse(text: str, option: str, *, min_port: int) -> Address:
    if text.startswith(_UNIX):
        return _parse_unix(text)
    if "@" in text or "?" in text or "#" in text:  # a password or a token: the message must not repeat it
        raise ValueError(f"{option} takes HOST:PORT, without a user, a query or a fragment")
    if "," in text:
        raise ValueError(f"{option} takes one address, not {text!r}: repeat --listen and --upstream once per broker")
    scheme, separator, location = text.partition("://")
    if separator:
        raise ValueError(f"{option} does not take {scheme}://: use {location or 'HOST:PORT'}")
    host, separator, port = text.rpartition(":")
    if not separator and not text.isdecimal():
        raise ValueError(f"{option} {text!r} has no port: use {text or 'HOST'}:9092")
    if not (port.isascii() and port.isdecimal()) or not min_port <= int(port) <= 65535:
        raise ValueError(_invalid_port_message(text, option, port, min_port))
    return TcpAddress(_parse_host(host, int(port), text, option) if host else None, int(port))


def _invalid_port_message(text: str, option: str, port: str, min_port: int) -> str:
    if text.count(":") > 1 and not text.startswith("["):
        return f"{option} {text!r} is an IPv6 address without brackets: use [{text}]:9092"
    if text.endswith("]"):
        return f"{option} {text!r} has no port: use {text}:9092"
    return f"{option} {text!r}: invalid port {port!r}: use {min_port} to 65535"


def _parse_host(host: str, port: int, text: str, option: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise ValueError(
                f"{option} {text!r}: invalid IPv6 address {host}: use [::1]:{port}, or a host name"
            ) from None
        return host[1:-1]
    if ":" in host:
        raise ValueError(f"{option} {text!r} is an IPv6 address without brackets: use the form [::1]:9092")
    if host == "*":
        raise ValueError(f"{option} {text!r}: use 0.0.0.0:{port} for all IPv4 addresses, [::]:{port} for IPv6")
    if any(character.isspace() or character in "[]/@" for character in host):
        raise ValueError(f"{option} {text!r}: invalid host name {host!r}: use HOST:{port}")
    return host


def _parse_unix(text: str) -> UnixAddress:
    path = text.removeprefix(_UNIX)
    if not path or "\0" in path:
        raise ValueError(f"{text!r} has no path: use unix:/path/to/socket")
    if len(path.encode(errors="surrogateescape")) > _MAX_UNIX_PATH:
        raise ValueError(f"the path of a Unix socket is limited to {_MAX_UNIX_PATH} bytes: use a shorter one")
    return UnixAddress(path)
