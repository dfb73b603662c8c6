"""The client's side of SASL: PLAIN, SCRAM and OAUTHBEARER (KIP-43, KIP-152, KIP-255)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from dissectors import schemas
from dissectors.schemas.codes import ApiKey
from kproxy.client.connection import BrokerConnection
from kproxy.client.round_trip import send_request
from kproxy.client.versions import VersionRanges, newest_version
from kproxy.errors import FINDINGS, UserError

#: Yields the messages to send, and receives the broker's; raises `_InvalidServerMessage` if one of those is wrong.
_Steps: TypeAlias = Generator[bytes, bytes, None]

_SCRAM: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: The mechanisms that kproxy can log in with.
MECHANISMS: Final = ("PLAIN", *_SCRAM, "OAUTHBEARER")
_MAX_ITERATIONS: Final = 1_000_000  # seconds of computation; Kafka's default is 4096


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """A mechanism, a user name and a password. For OAUTHBEARER, the password is the token, without a user name."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    def steps(self) -> _Steps:
        """Return a generator of the messages of the mechanism."""
        if self.mechanism in _SCRAM:
            return _scram_steps(_SCRAM[self.mechanism], self.username, self.password)
        return (
            _oauthbearer_steps(self.password)
            if self.mechanism == "OAUTHBEARER"
            else _plain_steps(self.username, self.password)
        )


async def log_in(connection: BrokerConnection, login: ClientLogin, served: VersionRanges) -> None:
    """Log in immediately after ApiVersions.

    Raises:
        UserError: The broker rejects the login, or does not prove that it knows the password.
    """
    body = await _send_request(connection, ApiKey.SASL_HANDSHAKE, served, mechanism=login.mechanism)
    if body["error_code"]:
        offered = ", ".join(body["mechanisms"] or ()) or "none"
        raise UserError(
            f"the broker does not accept {login.mechanism}: it offers {offered}; pass --sasl-mechanism", FINDINGS
        )
    steps = login.steps()
    message = next(steps)
    try:
        while True:
            body = await _send_request(connection, ApiKey.SASL_AUTHENTICATE, served, auth_bytes=message)
            if body["error_code"]:
                raise UserError(
                    f"the broker rejects the login: {body['error_message'] or 'it gives no reason'}", FINDINGS
                )
            message = steps.send(body["auth_bytes"])
    except StopIteration:
        return
    except _InvalidServerMessage as error:
        raise UserError(
            f"the broker's SASL answer is wrong: {error}; check the password and the broker", FINDINGS
        ) from None


class _InvalidServerMessage(Exception):
    """Raised if a message from the broker violates the mechanism. The text says how, without secrets."""


async def _send_request(
    connection: BrokerConnection, key: ApiKey, served: VersionRanges, **values: object
) -> dict[str, Any]:
    api = schemas.api(key)
    assert api is not None
    return await send_request(connection, api, newest_version(api, served), **values)


def _plain_steps(username: str, password: str) -> _Steps:
    """Log in with PLAIN (RFC 4616)."""
    yield b"\0" + username.encode() + b"\0" + password.encode()


def _oauthbearer_steps(token: str) -> _Steps:
    """Log in with OAUTHBEARER (RFC 7628). An error is answered with 0x01, after which the broker rejects the login."""
    response = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if response:
        yield b"\x01"


def _scram_steps(digest: str, username: str, password: str) -> _Steps:
    """Log in with SCRAM (RFC 5802) without channel binding, like Kafka's ScramSaslClient."""
    nonce = secrets.token_urlsafe(24)
    client_first_bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    server_first = (yield f"n,,{client_first_bare}".encode()).decode(errors="replace")
    server_attributes = _parse_attributes(server_first)
    if (
        not server_attributes.get("r", "").startswith(nonce)
        or not server_attributes.get("i", "").isdecimal()
        or "s" not in server_attributes
    ):
        raise _InvalidServerMessage("its first message does not contain the nonce, a salt and an iteration count")
    iterations = int(server_attributes["i"])
    if not 0 < iterations <= _MAX_ITERATIONS:
        raise _InvalidServerMessage(f"it asks for {iterations} iterations")
    try:
        salt = base64.b64decode(server_attributes["s"], validate=True)
    except ValueError:
        raise _InvalidServerMessage("its salt is not base64") from None
    salted_password = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted_password, b"Client Key", digest)
    client_final_without_proof = f"c=biws,r={server_attributes['r']}"
    auth_message = f"{client_first_bare},{server_first},{client_final_without_proof}".encode()
    client_signature = hmac.digest(hashlib.new(digest, client_key).digest(), auth_message, digest)
    proof = bytes(
        key_byte ^ signature_byte for key_byte, signature_byte in zip(client_key, client_signature, strict=True)
    )
    final_attributes = _parse_attributes(
        (yield f"{client_final_without_proof},p={base64.b64encode(proof).decode()}".encode()).decode(errors="replace")
    )
    server_signature = hmac.digest(hmac.digest(salted_password, b"Server Key", digest), auth_message, digest)
    if not hmac.compare_digest(final_attributes.get("v", ""), base64.b64encode(server_signature).decode()):
        raise _InvalidServerMessage("it does not prove that it knows the password")


def _parse_attributes(text: str) -> dict[str, str]:
    return dict(attribute.split("=", 1) for attribute in text.split(",") if "=" in attribute)
