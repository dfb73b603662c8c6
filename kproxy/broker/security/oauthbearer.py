"""SASL OAUTHBEARER (RFC 7628) with unsecured tokens, which are accepted without verification. For tests only.

Source: Kafka's OAuthBearerSaslServer, OAuthBearerUnsecuredValidatorCallbackHandler.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from kproxy.broker.security.exchange import Identity, LoginFailed

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

_FIRST: Final = re.compile(r"n,(?:a=(?P<authorization>[^,\x00]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x00\x01]*\x01)+)\x01")
_BEARER: Final = re.compile(r"(?i:bearer) +(?P<token>[-_~+/.A-Za-z0-9]+=*)")
_INVALID: Final = '{"status":"invalid_token"}'
_ABORTED: Final = b"\x01"  # the client's reply to an error; the server then fails the login


class OAuthBearer:
    """A login with a token, which contains the user's name and an expiry time."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock = cluster.clock
        self._refused = False
        self.identity: Identity | None = None

    def step(self, message: bytes) -> bytes:
        if self._refused and message == _ABORTED:
            raise LoginFailed(_INVALID)
        match = _FIRST.fullmatch(message.decode("utf-8", "replace"))
        pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair) if match else {}
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if match is None or bearer is None:
            raise LoginFailed
        identity = _read_identity(bearer["token"], self._clock.now())
        if identity is None:
            self._refused = True
            return _INVALID.encode()
        if match["authorization"] not in (None, identity.name):
            raise LoginFailed(
                f"Authentication failed: Client requested an authorization id ({match['authorization']}) "
                f"that is different from the token's principal name ({identity.name})"
            )
        self.identity = identity
        return b""


def _read_identity(token: str, now_ms: int) -> Identity | None:
    """Return the identity in an unsecured JSON Web Signature; None if it is invalid or expired."""
    segments = token.split(".")
    if len(segments) != 3 or segments[2]:
        return None
    header, claims = _decode_json(segments[0]), _decode_json(segments[1])
    if header.get("alg") != "none":
        return None
    name, expires_s, issued_s = claims.get("sub"), claims.get("exp"), claims.get("iat", 0)
    if not isinstance(name, str) or not name.strip() or not _is_time(expires_s) or not _is_time(issued_s):
        return None
    if not (issued_s * 1000 <= now_ms < expires_s * 1000 and issued_s < expires_s):
        return None
    return Identity(name, round(expires_s * 1000))


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _decode_json(segment: str) -> dict[str, Any]:
    try:
        claims = json.loads(base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}
