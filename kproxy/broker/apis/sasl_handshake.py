"""SaslHandshake: lets a client choose its SASL mechanism.

Leaves out: nothing. After v0, the mechanism's messages come as frames without a header; after v1, in SaslAuthenticate.
If the listener does not use SASL, or the client has already logged in, the response is ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("SaslHandshake", unauthenticated=True)
def sasl_handshake(request: Request) -> Body:
    """Return the supported mechanisms."""
    login = request.session.login
    if login is None:
        return {"error_code": Error.ILLEGAL_SASL_STATE}
    try:
        login.set_mechanism(request.body["mechanism"], headers=request.version >= 1)
    except ApiError as api_error:
        mechanisms = login.mechanisms if api_error.error is Error.UNSUPPORTED_SASL_MECHANISM else []
        return {"error_code": api_error.error, "mechanisms": mechanisms}
    return {"mechanisms": login.mechanisms}
