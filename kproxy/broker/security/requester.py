"""Principals in requests about delegation tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.request import Request

ANONYMOUS: Final = "User:ANONYMOUS"


def requester_principal(request: Request) -> str:
    """Return the principal that sent a request about tokens.

    Raises:
        ApiError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if the client is not logged in, or used a token.
    """
    session = request.session
    by_token = session.login is not None and session.login.by_token
    if by_token or session.principal == ANONYMOUS:
        raise ApiError(Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    return session.principal


def principal(fields: Mapping[str, Any], prefix: str = "principal") -> str:
    """Return a principal, e.g. ``User:alice``, from the type and name in a request."""
    return f"{fields[f'{prefix}_type']}:{fields[f'{prefix}_name']}"


def principal_fields(principal: str, prefix: str = "principal") -> Mapping[str, str]:
    """Return the fields for a principal in a response."""
    kind, _, name = principal.partition(":")
    return {f"{prefix}_type": kind, f"{prefix}_name": name}
