"""RenewDelegationToken: extends the lifetime of a token.

Leaves out: nothing.
"""

from __future__ import annotations

from kproxy.broker.errors import ApiError
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.security.requester import requester_principal
from kproxy.broker.security.tokens import Tokens


@api("RenewDelegationToken")
def renew_delegation_token(request: Request) -> Body:
    """Return the new expiry time."""
    body = request.body
    try:
        requester_name = requester_principal(request)
        expires_at = request.cluster.part(Tokens).renew(body["hmac"], requester_name, body["renew_period_ms"])
    except ApiError as api_error:
        return {"error_code": api_error.error, "expiry_timestamp_ms": -1}
    return {"expiry_timestamp_ms": expires_at}
