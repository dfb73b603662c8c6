"""H021: a client whose re-authentication fails each time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import client_key

FAILURES = Limit("failures", 3, "failures", "so many re-authentications of a client fail", 2)

_MAX_CLIENTS = 10_000


@dataclass(slots=True)
class _Failures:
    count: int = 0
    since: int = 0


class _Clients(BoundedDict[tuple[str, str | None, str], _Failures]):
    """The failures by client and server."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "H021",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("SaslAuthenticate",),
    only=FrameFlags.REFUSED,
    needs=(Authentication,),
    limits=(FAILURES,),
    since="0.1",
    blame="client",
)
def reauthentication_fails(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports clients that log in, but whose re-authentication fails each time the session ends.

    ## Why it matters
    The broker closes the connection, and requests in flight fail; the client reconnects, logs in, and works until the
    next re-authentication. It looks like a network that fails on a schedule.

    ## Usual cause
    A client that resends its first token after it has expired (OAUTHBEARER), or sends another user, which Kafka forbids
    on a connection. X008 reports the first failure with the server's reason.

    ## Example
    ```story
    rule H021:failures=2
    1> SaslHandshake v1 {"mechanism": "PLAIN"}
    1< {"mechanisms": ["PLAIN"]}
    1> SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    1< {"session_lifetime_ms": 60000}
    +50s
    1> SaslHandshake v1 {"mechanism": "PLAIN"}
    1< {"mechanisms": ["PLAIN"]}
    1> SaslAuthenticate v1 {"auth_bytes": "00 61 00 63"}
    1< {"error_code": 58, "error_message": "Authentication failed"}
    1 close by=server how=fin
    open 2 client=10.0.0.101:50002
    2> SaslHandshake v1 {"mechanism": "PLAIN"}
    2< {"mechanisms": ["PLAIN"]}
    2> SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    2< {"session_lifetime_ms": 60000}
    +50s
    2> SaslHandshake v1 {"mechanism": "PLAIN"}
    2< {"mechanisms": ["PLAIN"]}
    2> SaslAuthenticate v1 {"auth_bytes": "00 61 00 63"}
    2< {"error_code": 58, "error_message": "Authentication failed"}
    ```

    ## Look-alikes
    Logins that fail:
    ```story
    rule H021:failures=2
    1> SaslHandshake v1 {"mechanism": "PLAIN"}
    1< {"mechanisms": ["PLAIN"]}
    1> SaslAuthenticate v1 {"auth_bytes": "00 61 00 63"}
    1< {"error_code": 58, "error_message": "Authentication failed"}
    1 close by=server how=fin
    open 2 client=10.0.0.101:50002
    2> SaslHandshake v1 {"mechanism": "PLAIN"}
    2< {"mechanisms": ["PLAIN"]}
    2> SaslAuthenticate v1 {"auth_bytes": "00 61 00 63"}
    2< {"error_code": 58, "error_message": "Authentication failed"}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-368%3A+Allow+SASL+Connections+to+Periodically+Re-Authenticate
    """
    if not connection.state(Authentication).is_reauthentication:
        return
    failures = connection.run.state(_Clients).touch((*client_key(connection), connection.server), _Failures)
    failures.since = event.at if failures.count == 0 else failures.since
    failures.count += 1
    if failures.count >= connection.run.limit(FAILURES):
        count, failures.count = failures.count, 0
        interval = duration((event.at - failures.since) // (count - 1))
        yield Problem(
            f"{count} re-authentications of {client_label(connection)} at {connection.server} failed, one every "
            f"{interval}, each after a login that succeeded",
            hint="let the client get a new token for each re-authentication (its login callback), of the same user",
            cause=connection.server,
        )
