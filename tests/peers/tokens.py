"""Signed bearer tokens (JWT), and the JWKS file with which a broker verifies them."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

_HOUR_S = 3600


class TokenIssuer:
    """An identity provider with one RSA key; `jwks` is the file with the public key."""

    audience = "kafka"

    def __init__(self, directory: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        numbers = self._key.public_key().public_numbers()
        size = (numbers.n.bit_length() + 7) // 8
        public_jwk = {"kty": "RSA", "kid": "peers", "use": "sig", "alg": "RS256"}
        public_jwk |= {"n": _base64url(numbers.n.to_bytes(size, "big")), "e": _base64url(numbers.e.to_bytes(3, "big"))}
        self.jwks = directory / "jwks.json"
        self.jwks.write_text(json.dumps({"keys": [public_jwk]}))

    def token(self, subject: str, *, expires_in: float = _HOUR_S, **claims: Any) -> str:
        """Return a token that is valid for `expires_in` seconds; `claims` add or replace claims."""
        now = int(time.time())
        claims = {"sub": subject, "aud": self.audience, "iat": now - _HOUR_S, "exp": now + int(expires_in)} | claims
        parts = ({"alg": "RS256", "kid": "peers", "typ": "at+jwt"}, claims)
        signing_input = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signing_input}.{_base64url(signature)}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
