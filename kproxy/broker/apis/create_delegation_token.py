"""CreateDelegationToken: creates a token that others can use to log in as its owner over SCRAM (KIP-48).

Leaves out: nothing. As in Kafka, tokens need `delegation.token.secret.key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import is_allowed
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.security.requester import principal, principal_fields, requester_principal
from kproxy.broker.security.tokens import Tokens

_NO_TIMES: Final = {"issue_timestamp_ms": -1, "expiry_timestamp_ms": -1, "max_timestamp_ms": -1}


@api("CreateDelegationToken")
def create_delegation_token(request: Request) -> Body:
    """Return the new token."""
    requester_name = request.session.principal
    owner = principal(request.body, "owner_principal") if request.body.get("owner_principal_name") else requester_name
    principals = {**principal_fields(owner), **principal_fields(requester_name, "token_requester_principal")}
    try:
        token = _create_token(request, owner)
    except ApiError as api_error:
        return {"error_code": api_error.error, **principals, **_NO_TIMES}
    return {**principals, **token}


def _create_token(request: Request, owner: str) -> Mapping[str, Any]:
    requester_name = requester_principal(request)
    if owner != requester_name and not is_allowed(request, "CREATE_TOKENS", "USER", owner):
        raise ApiError(Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    renewers = request.body["renewers"]
    if any(renewer["principal_type"] != "User" for renewer in renewers):
        raise ApiError(Error.INVALID_PRINCIPAL_TYPE)
    tokens = request.cluster.part(Tokens)
    token = tokens.create(
        owner, requester_name, [principal(renewer) for renewer in renewers], request.body["max_lifetime_ms"]
    )
    return {
        "issue_timestamp_ms": token.issued_at,
        "expiry_timestamp_ms": token.expires_at,
        "max_timestamp_ms": token.max_at,
        "token_id": token.id,
        "hmac": tokens.hmac_of(token),
    }
