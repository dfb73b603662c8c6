"""SaslAuthenticate: carries the messages of a login, or of a re-authentication (KIP-368).

Leaves out: nothing. After a failed login, the broker responds and closes the connection.
"""

from __future__ import annotations

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("SaslAuthenticate", unauthenticated=True)
def sasl_authenticate(request: Request) -> Body:
    """Return the server's message and, after a successful login, the lifetime of the session."""
    login = request.session.login
    if login is None:
        message = "SaslAuthenticate request received after successful authentication"
        return {"error_code": Error.ILLEGAL_SASL_STATE, "error_message": message}
    try:
        response = login.step(request.body["auth_bytes"])
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.message}
    lifetime_ms = login.lifetime_ms if request.session.authenticated else 0
    return {"auth_bytes": response, "session_lifetime_ms": lifetime_ms}
