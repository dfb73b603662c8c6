"""SASL PLAIN (RFC 4616), like Kafka's PlainSaslServer."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from kproxy.broker.security.exchange import Identity, LoginFailed

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster


class Plain:
    """A login with an authorization id, a name and a password, separated by NUL."""

    def __init__(self, cluster: Cluster) -> None:
        self._users = cluster.options.users
        self.identity: Identity | None = None

    def step(self, message: bytes) -> bytes:
        parts = message.decode("utf-8", "replace").split("\0", 3)
        if len(parts) != 3:
            raise LoginFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, name, password = parts
        for field_name, value in (("username", name), ("password", password)):
            if not value:
                raise LoginFailed(f"Authentication failed: {field_name} not specified")
        is_correct = hmac.compare_digest(self._users.get(name, "").encode(), password.encode())
        if not is_correct or name not in self._users:
            raise LoginFailed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise LoginFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.identity = Identity(name)
        return b""
