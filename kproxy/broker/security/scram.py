"""SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677), like Kafka's ScramSaslServer.

With the extension ``tokenauth=true``, the name is the id of a delegation token, and the password its HMAC in base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Final

from kproxy.broker.security.credentials import SCRAM, Credential, Credentials
from kproxy.broker.security.exchange import Identity, LoginFailed
from kproxy.broker.security.tokens import Tokens

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

# The same patterns as in Kafka's ScramMessages.
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_EXTENSIONS: Final = r"(?P<extensions>(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*)"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,(?P<bare>(?:m=[^,]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"{_EXTENSIONS})"
)
_FINAL: Final = re.compile(
    rf"(?P<unproven>c=[A-Za-z0-9+/=]+,r=(?P<nonce>{_PRINTABLE})(?:,(?!p=)[^,]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class Scram:
    """A login: the client sends its name and a proof of the password, the server its signature."""

    def __init__(self, cluster: Cluster, mechanism: str) -> None:
        self._cluster = cluster
        self._mechanism = mechanism
        self._digest = SCRAM[mechanism][1]
        self._challenge: _Challenge | None = None
        self.identity: Identity | None = None

    def step(self, message: bytes) -> bytes:
        text = message.decode("utf-8", "replace")
        return (
            self._process_first_message(text)
            if self._challenge is None
            else self._process_final_message(self._challenge, text)
        )

    def _process_first_message(self, text: str) -> bytes:
        if (match := _FIRST.fullmatch(text)) is None:
            raise LoginFailed
        name = match["name"].replace("=2C", ",").replace("=3D", "=")
        authorization_id = (match["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
        extensions = dict(extension.split("=", 1) for extension in match["extensions"].split(",") if extension)
        if extensions.get("tokenauth", "").lower() == "true":
            credential, identity = self._find_token(name)
        else:
            credential, identity = self._find_credential(name), Identity(name)
        if authorization_id not in ("", name):
            raise LoginFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        nonce = match["nonce"] + secrets.token_urlsafe(24)
        message = f"r={nonce},s={base64.b64encode(credential.salt).decode()},i={credential.iterations}"
        self._challenge = _Challenge(credential, identity, nonce, f"{match['bare']},{message}")
        return message.encode()

    def _find_credential(self, name: str) -> Credential:
        credential = self._cluster.part(Credentials).get(name, self._mechanism)
        if credential is None:
            raise LoginFailed
        return credential

    def _find_token(self, token_id: str) -> tuple[Credential, Identity]:
        tokens = self._cluster.part(Tokens)
        token = tokens.find_usable(token_id)
        if token is None:
            raise LoginFailed
        credential = Credential.from_password(self._digest, base64.b64encode(tokens.hmac_of(token)).decode())
        return credential, Identity(token.owner.removeprefix("User:"), token.expires_at, by_token=True)

    def _process_final_message(self, challenge: _Challenge, text: str) -> bytes:
        match = _FINAL.fullmatch(text)
        if match is None or not hmac.compare_digest(match["nonce"].encode(), challenge.nonce.encode()):
            raise LoginFailed
        auth_message = f"{challenge.messages},{match['unproven']}".encode()
        signature = hmac.digest(challenge.credential.stored_key, auth_message, self._digest)
        proof = _decode_base64(match["proof"])
        if len(proof) != len(signature):
            raise LoginFailed
        client_key = bytes(
            proof_byte ^ signature_byte for proof_byte, signature_byte in zip(proof, signature, strict=True)
        )
        if not hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), challenge.credential.stored_key):
            raise LoginFailed
        self.identity = challenge.identity
        return b"v=" + base64.b64encode(hmac.digest(challenge.credential.server_key, auth_message, self._digest))


class _Challenge:
    """A challenge to the client; `messages` are the messages that the proof must sign."""

    def __init__(self, credential: Credential, identity: Identity, nonce: str, messages: str) -> None:
        self.credential = credential
        self.identity = identity
        self.nonce = nonce
        self.messages = messages


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise LoginFailed from None
