"""Who asks for delegation tokens, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.errors import Error, Refused
from kproxy.broker.request import Request

ANONYMOUS: Final = "User:ANONYMOUS"


def requester(request: Request) -> str:
    """The principal that asks for something about tokens.

    Raises:
        Refused: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if nobody is logged in, or with a token.
    """
    session = request.session
    by_token = session.login is not None and session.login.by_token
    if by_token or session.principal == ANONYMOUS:
        raise Refused(Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    return session.principal


def principal(fields: Mapping[str, Any], prefix: str = "principal") -> str:
    """A principal as ACLs have it, of a request that has its type and name."""
    return f"{fields[f'{prefix}_type']}:{fields[f'{prefix}_name']}"


def in_parts(principal: str, prefix: str = "principal") -> Mapping[str, str]:
    """The fields of a principal in an answer."""
    kind, _, name = principal.partition(":")
    return {f"{prefix}_type": kind, f"{prefix}_name": name}
