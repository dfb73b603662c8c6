"""Access control of `kproxy web`: the token, the origin and the host name of a request."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

TOKEN: Final = "token"  # noqa: S105  # the name of the parameter


class AccessControl:
    """Holds the token and the valid host names of a server.

    A name in `Host` that is neither an IP address nor one of these names indicates DNS rebinding. The port is not
    compared, as it differs behind ``ssh -L``.

    Args:
        host: The address that the server was bound to, as the user gave it.
        port: Its port; part of the cookie's name, because cookies are shared between ports.
    """

    def __init__(self, host: str | None, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self.cookie = f"kproxy-{port}"
        self._names = {"localhost", socket.gethostname().lower(), (host or "localhost").lower()}

    def is_own_host(self, host: str) -> bool:
        """Whether a `Host` header names this server."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._names or _is_ip_address(name)

    def is_key(self, token: str | None) -> bool:
        """Whether this is the token; compares in constant time."""
        return token is not None and secrets.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def has_token(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        """Whether a request has the token, in its URL or its cookie."""
        return self.is_key(query.get(TOKEN)) or self.is_key(cookies.get(self.cookie))


def is_same_origin(origin: str | None, host: str) -> bool:
    """Whether a request with these headers comes from a page of this server; browsers set them reliably."""
    return origin == f"http://{host}"


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
