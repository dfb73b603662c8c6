"""CreateDelegationToken: creates a token that others can use to log in as its owner over SCRAM (KIP-48).

Leaves out: nothing. As in Kafka, tokens need `delegation.token.secret.key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import allowed
from kproxy.broker.errors import Error, Refused
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.security.requester import in_parts, principal, requester
from kproxy.broker.security.tokens import Tokens

_NEVER: Final = {"issue_timestamp_ms": -1, "expiry_timestamp_ms": -1, "max_timestamp_ms": -1}


@api("CreateDelegationToken")
def create_delegation_token(request: Request) -> Body:
    """Return the new token."""
    requester_name = request.session.principal
    owner = principal(request.body, "owner_principal") if request.body.get("owner_principal_name") else requester_name
    principals = {**in_parts(owner), **in_parts(requester_name, "token_requester_principal")}
    try:
        token = _made(request, owner)
    except Refused as api_error:
        return {"error_code": api_error.error, **principals, **_NEVER}
    return {**principals, **token}


def _made(request: Request, owner: str) -> Mapping[str, Any]:
    requester_name = requester(request)
    if owner != requester_name and not allowed(request, "CREATE_TOKENS", "USER", owner):
        raise Refused(Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    renewers = request.body["renewers"]
    if any(renewer["principal_type"] != "User" for renewer in renewers):
        raise Refused(Error.INVALID_PRINCIPAL_TYPE)
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
