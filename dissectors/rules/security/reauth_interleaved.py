"""X011: other requests during a re-authentication."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_LOGIN = frozenset({"SaslHandshake", "SaslAuthenticate"})


@rule(
    "X011",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    only=FrameFlags.SASL,
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def reauth_interleaved(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client that re-authenticates on a connection sends nothing else until it is done.

    ## Why it matters
    From SaslHandshake until the last token, the broker accepts only SASL requests. On any other, it closes the
    connection, and everything in flight is lost. A client that matches responses by order takes a token for data.

    ## Usual cause
    One thread renews the session while others send on the same connection.

    ## Example
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"session_lifetime_ms": 60000}
    +50s
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    > Metadata v9 {"topics": null}
    ```

    ## Look-alikes
    A request from before the re-authentication is still answered:
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"session_lifetime_ms": 60000}
    +50s
    > Metadata v9 {"topics": null}
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"session_lifetime_ms": 60000}
    > Metadata v9 {"topics": null}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-368%3A+Allow+SASL+Connections+to+Periodically+Re-Authenticate
    https://github.com/IBM/sarama/pull/2234
    """
    authentication = connection.state(Authentication)
    if not authentication.awaits_token or not authentication.is_reauthentication or event.message.api in _LOGIN:
        return
    yield Problem(
        f"{event.message.api} is sent in the middle of a SASL re-authentication: the broker closes the connection",
        hint="hold back other requests from SaslHandshake until the last SaslAuthenticate response",
        expected="SaslAuthenticate",
        got=event.message.api,
        **locate(event.message, "header", "request_api_key"),
    )
