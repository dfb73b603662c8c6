"""X016: data is served to a client that has not logged in."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.addresses import host_of
from dissectors.connections.events import ResponseReceived, TokenReceived
from dissectors.findings import Problem, Severity
from dissectors.messages import summary
from dissectors.rules import rule
from dissectors.trackers.authentication import BEFORE_LOGIN, Authentication, Listeners, SaslPhase
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger


@rule(
    "X016",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    only=FrameFlags.SASL,
    also=(Trigger((TokenReceived,)),),
    needs=(Authentication, Listeners),
    since="0.1",
    blame="broker",
)
def unauthenticated_served(event: ResponseReceived | TokenReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a listener that requires SASL serves only authenticated clients.

    ## Why it matters
    A client that skips or fails the login can read and write. It is a warning if the connection never used SASL on a
    listener where others logged in: a gateway may intentionally allow both, Kafka does not.

    ## Usual cause
    A broker or gateway that handles SaslAuthenticate like any other request, without tracking who has logged in.

    ## Example
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"error_code": 58, "error_message": "wrong"}
    > Metadata v9 {"topics": null}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}
    ```
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {}
    2> Metadata v9 {"topics": null}
    2< {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}
    ```

    ## Look-alikes
    A connection whose start is not in the capture:
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {}
    > Metadata v9 {"topics": null}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}
    open 2 midstream
    2> Metadata v9 {"topics": null}
    2< {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#sasl_handshake
    https://github.com/nisshi-io/nisshi/pull/696
    """
    authentication = connection.state(Authentication)
    if authentication.phase is SaslPhase.DONE:
        connection.run.subscribe("X016")  # other clients of this listener may skip the login
    if not authentication.unauthenticated or isinstance(event, TokenReceived):
        return
    has_never_logged_in = not authentication.started_at
    if has_never_logged_in and connection.server not in connection.run.state(Listeners).sasl:
        return
    phase = authentication.phase
    message, request = event.message, event.request
    if (
        message is None
        or request is None
        or not (has_never_logged_in or phase is SaslPhase.FAILED or authentication.awaits_token)
        or message.api in BEFORE_LOGIN
        or request.at < authentication.started_at
        or summary.errors(message)
    ):
        return
    login_state = (
        "has not logged in"
        if has_never_logged_in
        else "failed to log in"
        if phase is SaslPhase.FAILED
        else "has not finished its login"
    )
    yield Problem(
        f"server {connection.server} serves {message.api} to {host_of(connection.client)}, which {login_state}",
        severity=Severity.WARNING if has_never_logged_in else None,
        hint="unless it is meant to serve both, fix the broker: it must close on a request before the login",
        expected="a closed connection",
        got=f"{message.api} response without an error",
        cause=phase.name,
    )
