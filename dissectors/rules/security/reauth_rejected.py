"""X012: a broker that refuses re-authentication."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import schemas
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState

_TOO_SOON_HINT = "wait at least a second between logins on one connection"
_REFUSED_HINT = "the broker must accept SaslHandshake again on an authenticated connection (KIP-368)"


@rule(
    "X012",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("SaslHandshake",),
    needs=(Authentication,),
    since="0.1",
    blame="broker",
)
def reauth_rejected(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a second SaslHandshake on an authenticated connection is accepted.

    ## Why it matters
    Clients renew their session on the existing connection (KIP-368). If the broker refuses, every connection is lost
    once per session lifetime, with everything in flight.

    ## Usual cause
    A gateway that allows one login per connection. Kafka itself refuses a client that re-authenticates within a
    second: then the client is to blame.

    ## Example
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"session_lifetime_ms": 60000}
    +50s
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"error_code": 34, "mechanisms": ["PLAIN"]}
    ```

    ## Look-alikes
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"session_lifetime_ms": 60000}
    +50s
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-368%3A+Allow+SASL+Connections+to+Periodically+Re-Authenticate
    https://github.com/nisshi-io/nisshi/issues/665
    """
    message = event.message
    authentication = connection.state(Authentication)
    if message is None or not authentication.is_reauthentication or not (code := message.body.get("error_code")):
        return
    refusal = schemas.error_name(code) or f"error {code}"
    is_immediate = authentication.restarted_after < SECOND
    yield Problem(
        f"server {connection.server} refuses a second SaslHandshake on a connection with {refusal}",
        hint=_TOO_SOON_HINT if is_immediate else _REFUSED_HINT,
        blame="client" if is_immediate else None,
        got=refusal,
        **locate(message, "error_code"),
    )
