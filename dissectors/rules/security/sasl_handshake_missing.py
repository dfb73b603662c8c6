"""X023: a GSSAPI token without SaslHandshake, after requests."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import Direction, TokenReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState


@rule("X023", severity=Severity.ERROR, events=(TokenReceived,), needs=(Authentication,), since="0.1", blame="client")
def sasl_handshake_missing(event: TokenReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client that logs in with Kerberos sends SaslHandshake after its first request.

    ## Why it matters
    The broker takes the token for a request with an unknown API key, and closes the connection. The client sees only
    the closed connection: nothing mentions the login.

    ## Usual cause
    Clients of Kafka 0.9 began a connection with the GSSAPI token, without any header. That works only at the start of a
    connection: once a client has sent ApiVersions, the broker waits for SaslHandshake. Kafka 4 does not accept
    tokens without headers at all (KIP-896).

    ## Example
    ```story
    > ApiVersions v0
    < {"api_keys": [{"api_key": 17, "max_version": 1}]}
    > hex 00000018 60 82 0054 06092a864886f712010202 0100 6e 82 0043 a0 03 02
    ```

    ## Look-alikes
    A 0.9 client, whose first bytes are the token, and a client that has sent SaslHandshake v0 (X009):
    ```story
    > hex 00000018 60 82 0054 06092a864886f712010202 0100 6e 82 0043 a0 03 02
    ```
    ```story
    > SaslHandshake v0 {"mechanism": "GSSAPI"}
    < {"mechanisms": ["GSSAPI"]}
    > hex 00000018 60 82 0054 06092a864886f712010202 0100 6e 82 0043 a0 03 02
    ```

    ## Sources
    https://github.com/twmb/franz-go/issues/1220
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-896
    https://www.rfc-editor.org/rfc/rfc4121#section-4.1
    """
    login = connection.state(Authentication)
    if event.direction is not Direction.REQUEST or not (login.without_handshake and login.tokens == 1):
        return
    yield Problem(
        f"a raw GSSAPI token (Kerberos, {event.size} bytes) follows requests without SaslHandshake",
        hint="send SaslHandshake with the mechanism GSSAPI first, and the token in SaslAuthenticate: Kafka 4 accepts "
        "no tokens without request headers (KIP-896)",
        cause=connection.server,
    )
