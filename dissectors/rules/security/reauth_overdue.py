"""X010: a request on an expired SASL session."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.connection_endings import CLOSED_IN_FLIGHT, CLOSED_UPON_REQUEST, ConnectionEndings
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

_LOGIN = frozenset({"SaslHandshake", "SaslAuthenticate"})


#: Sessions that end sooner are not compared, and those whose lengths differ by at most this share are equally long.
_MIN_LIFETIME = 30 * SECOND
_TOLERANCE = 0.05

_MAX_CLIENTS = 10_000


class _Session:
    """The SASL session: the version of SaslAuthenticate, if any, and when a reported one expired (ns)."""

    version: int | None = None
    expired_at = 0


class _ClosedSessions(BoundedDict[tuple[str, str | None], int]):
    """How long (ns) the latest session lasted that a server closed, by server and client id."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "X010",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    only=FrameFlags.SASL,
    also=(Trigger((ConnectionEnded,)),),
    needs=(Authentication, ConnectionEndings),
    since="0.1",
    blame="client",
)
def reauth_overdue(event: RequestReceived | ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client re-authenticates before it sends requests on an expired SASL session.

    ## Why it matters
    SaslAuthenticate returns the session lifetime (connections.max.reauth.ms, or the token's lifetime). At the first
    request after that, the broker closes the connection: requests in flight are lost, once per period.

    ## Usual cause
    A client that does not support re-authentication (KIP-368), or one whose timer restarts with every request. With
    SaslAuthenticate v0, a client does not learn the lifetime: this is reported when a server closes two connections
    with requests in flight, equally long after their logins.

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

    ## Look-alikes
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
    session = connection.state(_Session)
    if isinstance(event, ConnectionEnded):
        yield from _check_unknown_lifetime(event, connection)
        return
    if event.message.api == "SaslAuthenticate":
        session.version = event.message.version
    if expired_at is None or event.at <= expired_at or event.message.api in _LOGIN or expired_at == session.expired_at:
        return
    session.expired_at = expired_at  # once is enough: the broker closes the connection
    yield Problem(
        f"{event.message.api} of client {connection.client_id!r} was sent {(event.at - expired_at) / 1e9:.3f} s after "
        "its SASL session expired: the broker closes the connection",
        hint="use a client that re-authenticates (KIP-368), or raise connections.max.reauth.ms",
        expected="SaslHandshake before the session's end",
        got=event.message.api,
    )


def _check_unknown_lifetime(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Yield a problem if the server closed two sessions equally long after logins that did not return a lifetime."""
    authentication, run = connection.state(Authentication), connection.run
    if not authentication.authenticated_at or connection.state(_Session).version != 0:
        return
    if run.state(ConnectionEndings).cause not in (CLOSED_IN_FLIGHT, CLOSED_UPON_REQUEST):
        return
    lasted, closed_sessions = event.at - authentication.authenticated_at, run.state(_ClosedSessions)
    key = connection.server, connection.client_id
    previous, closed_sessions[key] = closed_sessions.get(key), lasted
    if previous is None or lasted < _MIN_LIFETIME or abs(lasted - previous) > _TOLERANCE * lasted:
        return
    yield Problem(
        f"the server closed a connection of client {connection.client_id!r} {duration(lasted)} after its login, as it"
        " did with the one before: its SASL session has probably expired, and the client does not know when, because"
        " SaslAuthenticate v0 does not return the lifetime",
        hint="use a client that sends SaslAuthenticate v1 or later and re-authenticates (KIP-368), or raise"
        " connections.max.reauth.ms",
        expected="SaslAuthenticate v1 or later",
        got="v0",
    )
