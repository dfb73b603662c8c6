"""SASL OAUTHBEARER (RFC 7628, KIP-255): a bearer token, whose claims are read if it is a JWT (RFC 7519)."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from dissectors.sasl.messages import OAuthBearerClientFirst, SaslMessage, ServerRefusal, showable_name

_SEPARATOR = "\x01"
_BEARER = re.compile(r"bearer +(?P<token>[-_~+/.A-Za-z0-9]+=*)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z]{1,64}")
#: The codes of RFC 6750 and similar ones; a longer text could be anything, even a token.
_STATUS = re.compile(r"[A-Za-z0-9_ .:-]{1,64}")
#: The number of dots in a signed token (RFC 7515), and in an encrypted one (RFC 7516).
_DOTS = (2, 4)
_MAX_EXTENSIONS = 16
#: Longer texts are not read as JSON.
_MAX_JSON_BYTES = 64 * 1024


def read_client_first(data: bytes) -> SaslMessage:
    """Read the client's first message: the token's user and dates, if it is a JWT."""
    header, _, remainder = data.decode(errors="replace").partition(_SEPARATOR)
    parts = header.split(",")
    if len(parts) != 3 or parts[0] not in ("n", "y") or parts[2]:
        return OAuthBearerClientFirst(problem='does not begin with a GS2 header ("n,,")')
    pairs = dict(pair.split("=", 1) for pair in remainder.split(_SEPARATOR) if "=" in pair)
    authorization_id = parts[1].removeprefix("a=")
    bearer = _BEARER.fullmatch(pairs.pop("auth", ""))
    if bearer is None:
        return OAuthBearerClientFirst(authorization_id=authorization_id, problem="has no bearer token (auth=Bearer)")
    token = bearer["token"]
    claims = _read_claims(token)
    subject = claims.get("sub")
    return OAuthBearerClientFirst(
        username=showable_name(subject) if isinstance(subject, str) else None,
        authorization_id=authorization_id,
        extensions=tuple(name for name in pairs if _NAME.fullmatch(name))[:_MAX_EXTENSIONS],
        expires_at=_plausible_time(claims.get("exp")),
        issued_at=_plausible_time(claims.get("iat")),
        not_before=_plausible_time(claims.get("nbf")),
        is_opaque=token.count(".") not in _DOTS,
        problem=None if remainder.endswith(2 * _SEPARATOR) else "does not end with two bytes 01",
    )


def read_server_refusal(data: bytes) -> ServerRefusal:
    """Read the server's error: JSON with a ``status``. The client acknowledges it, then the login fails."""
    status = _parse_json(data).get("status")
    return ServerRefusal(reason=status if isinstance(status, str) and _STATUS.fullmatch(status) else None)


def _read_claims(token: str) -> dict[str, Any]:
    """Return the claims of a signed or unsecured token; empty for an encrypted or opaque one."""
    parts = token.split(".")
    if len(parts) != 3 or len(parts[1]) > _MAX_JSON_BYTES:
        return {}
    try:
        return _parse_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}


def _parse_json(data: bytes) -> dict[str, Any]:
    if len(data) > _MAX_JSON_BYTES:
        return {}
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _plausible_time(value: object) -> float | None:
    """Return the value if it is a plausible time, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < 1e11 else None
