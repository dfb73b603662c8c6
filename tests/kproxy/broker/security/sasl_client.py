"""The client's side of SASL, as in RFC 5802 and RFC 7628."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from tests.kproxy.broker.socket_client import SocketClient

DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class ScramClient:
    """A client that logs in over SCRAM."""

    def __init__(self, mechanism: str, name: str, password: str, extensions: str = "", authorize: str = "") -> None:
        self._digest = DIGESTS[mechanism]
        self._password = password
        self._bare = f"n={name},r=clientnonce{extensions}"
        self.first = f"n,{authorize and 'a=' + authorize},{self._bare}".encode()
        self.expected = b""  # the server's last message

    def final(self, server_first: bytes) -> bytes:
        """Return the client's final message, given the server's response to `first`."""
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        salted_password = hashlib.pbkdf2_hmac(self._digest, self._password.encode(), salt, iterations)
        client_key = hmac.digest(salted_password, b"Client Key", self._digest)
        stored_key = hashlib.new(self._digest, client_key).digest()
        final_bare = f"c=biws,r={fields['r']}"
        signed_text = f"{self._bare},{server_first.decode()},{final_bare}".encode()
        signature = hmac.digest(stored_key, signed_text, self._digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted_password, b"Server Key", self._digest)
        self.expected = b"v=" + base64.b64encode(hmac.digest(server_key, signed_text, self._digest))
        return f"{final_bare},p={base64.b64encode(proof).decode()}".encode()


def unsecured_token(claims: Mapping[str, Any], algorithm: str = "none") -> str:
    """Return a JSON Web Signature without a signature."""
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": algorithm}, claims))
    return ".".join(part.decode() for part in parts) + "."


def bearer_message(token: str) -> bytes:
    """Return the first message of OAUTHBEARER."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


async def login_plain(client: SocketClient, name: str = "alice", password: str = "secret", version: int = 2) -> Any:
    """Log in with PLAIN; return the last response."""
    assert (await client("SaslHandshake", 1, {"mechanism": "PLAIN"}))["error_code"] == 0
    return await client("SaslAuthenticate", version, {"auth_bytes": f"\0{name}\0{password}".encode()})


async def login_scram(client: SocketClient, mechanism: str, scram: ScramClient) -> Any:
    """Log in with SCRAM; return the last response."""
    assert (await client("SaslHandshake", 1, {"mechanism": mechanism}))["error_code"] == 0
    first = await client("SaslAuthenticate", 2, {"auth_bytes": scram.first})
    if first["error_code"]:
        return first
    return await client("SaslAuthenticate", 2, {"auth_bytes": scram.final(first["auth_bytes"])})
