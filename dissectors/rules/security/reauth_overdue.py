"""X010: a request on an expired SASL session."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_LOGIN = frozenset({"SaslHandshake", "SaslAuthenticate"})


class _ReportedSession:
    """When the latest reported session of a connection expired (ns)."""

    expired_at = 0


@rule(
    "X010",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    only=FrameFlags.SASL,
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def reauth_overdue(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client re-authenticates before it sends requests on an expired SASL session.

    ## Why it matters
    SaslAuthenticate returns the session lifetime (connections.max.reauth.ms, or the token's lifetime). At the first
    request after that, the broker closes the connection: requests in flight are lost, once per period.

    ## Usual cause
    A client that does not support re-authentication (KIP-368), or one whose timer restarts with every request.

    ## Example
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"session_lifetime_ms": 60000}
    +61s
    > Metadata v9 {"topics": null}
    close by=server how=fin
    ```

    ## Looks alike
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"session_lifetime_ms": 60000}
    +61s
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"session_lifetime_ms": 60000}
    +30s
    > Metadata v9 {"topics": null}
    < {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-368%3A+Allow+SASL+Connections+to+Periodically+Re-Authenticate
    https://github.com/apache/kafka/pull/7784
    https://github.com/kafka4beam/kafka_protocol/issues/118
    """
    authentication = connection.state(Authentication)
    expired_at = authentication.expires_at
    reported = connection.state(_ReportedSession)
    if expired_at is None or event.at <= expired_at or event.message.api in _LOGIN or expired_at == reported.expired_at:
        return
    reported.expired_at = expired_at  # once is enough: the broker closes the connection
    yield Problem(
        f"{event.message.api} of client {connection.client_id!r} was sent {(event.at - expired_at) / 1e9:.3f} s after "
        "its SASL session expired: the broker closes the connection",
        hint="use a client that re-authenticates (KIP-368), or raise connections.max.reauth.ms",
        expected="SaslHandshake before the session's end",
        got=event.message.api,
    )
