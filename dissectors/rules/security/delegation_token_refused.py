"""X021: requests about delegation tokens that a broker refuses."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: Error code -> (reason, what to do). X014 reports DELEGATION_TOKEN_AUTHORIZATION_FAILED.
_REASONS = {
    Error.DELEGATION_TOKEN_AUTH_DISABLED: (
        "delegation tokens are disabled",
        "set delegation.token.secret.key on every broker and controller",
    ),
    Error.DELEGATION_TOKEN_NOT_FOUND: (
        "no token has this HMAC",
        "check that the whole HMAC was sent, to the cluster that created the token; expired tokens are deleted",
    ),
    Error.DELEGATION_TOKEN_OWNER_MISMATCH: (
        "the client is neither the token's owner nor a renewer",
        "log in as the owner, or name the client as a renewer when creating the token",
    ),
    Error.DELEGATION_TOKEN_EXPIRED: (
        "the token has expired",
        "create another one, and renew it before its expiry; it cannot live longer than its max lifetime",
    ),
}


@rule(
    "X021",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"),
    only=FrameFlags.REFUSED,
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def delegation_token_refused(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that requests about delegation tokens succeed.

    ## Why it matters
    Jobs that were started with a token fail as soon as it cannot be renewed, often hours after the cause.

    ## Usual cause
    Tokens need a secret key on every broker. They can only be created and renewed on a connection whose client has
    proved who it is by SASL or mutual TLS, and not by a delegation token itself. They expire, and can be renewed only
    up to their max lifetime.

    ## Example
    On a connection without a login:
    ```story
    > CreateDelegationToken v2
    < {"error_code": 64}
    ```
    ```story
    > RenewDelegationToken v2 {"hmac": "00 01"}
    < {"error_code": 66}
    ```

    ## Look-alikes
    A denial by an ACL is X014:
    ```story
    > DescribeDelegationToken v1
    < {"error_code": 65}
    > CreateDelegationToken v2
    < {"principal_type": "User", "principal_name": "alice", "token_id": "t"}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-48+Delegation+token+support+for+Kafka
    https://kafka.apache.org/documentation/#security_delegation_token
    """
    message = event.message
    if message is None or event.request_body is None:
        return
    code = message.body.get("error_code", 0)
    if code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
        reason, hint = _refusal_reason(connection)
    elif code in _REASONS:
        reason, hint = _REASONS[code]
    else:
        return
    yield Problem(
        f"server {connection.server} refuses {message.api} of client {connection.client_id!r} with "
        f"{Error(code).name}: {reason}",
        hint=hint,
        **locate(message, "error_code"),
        cause=str(code),
    )


def _refusal_reason(connection: ConnectionState) -> tuple[str, str]:
    authentication = connection.state(Authentication)
    if authentication.by_token:
        return "it has logged in with a delegation token", "log in with the user's own credentials to manage tokens"
    if not connection.tls and authentication.authenticated_at is None and not connection.midstream:
        return "it has not logged in", "use a listener with SASL or mutual TLS"
    return "its login does not allow it", "use SASL without a delegation token, or mutual TLS"
