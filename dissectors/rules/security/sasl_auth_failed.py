"""X008: a login that fails."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.addresses import host_of
from dissectors.connections.events import ConnectionEnded, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import ProblemPlace, locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.authentication import Authentication, SaslPhase
from dissectors.trackers.recurrence import Recurrence
from dissectors.trackers.state import ConnectionState

_SASL_AUTHENTICATION_FAILED = Error.SASL_AUTHENTICATION_FAILED
_THRESHOLD = 3
_MAX_TEXT = 160


class _Failures(Recurrence):
    """Failed logins per server, client and user."""


@rule(
    "X008",
    severity=Severity.ERROR,
    events=(ResponseReceived, ConnectionEnded),
    apis=("SaslAuthenticate",),
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def sasl_auth_failed(event: ResponseReceived | ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that every login succeeds.

    ## Why it matters
    Without a login, a client can do nothing. Clients retry the same credentials forever, which fills the broker's log
    and may lock the account. The third consecutive failure of one user and client is reported once more, with the
    count.

    ## Usual cause
    A wrong or rotated password, a user that does not exist for this mechanism (SCRAM users are created per mechanism),
    or an expired token. The broker's log names the user: kproxy does not print what a failed login sent, because
    people type passwords into name fields.

    ## Example
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {"error_code": 58, "error_message": "Authentication failed: Invalid username or password"}
    close by=server how=fin
    ```
    After SaslHandshake v0, the broker closes the connection without an error code:
    ```story
    > SaslHandshake v0 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > hex 00 00 00 04 00 61 00 62
    close by=server how=fin
    ```

    ## Looks alike
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    < {}
    close by=server how=fin
    2> SaslHandshake v0 {"mechanism": "PLAIN"}
    2< {"mechanisms": ["PLAIN"]}
    2> hex 00 00 00 04 00 61 00 62
    2 close by=client how=fin
    ```

    ## Sources
    https://kafka.apache.org/protocol#sasl_handshake
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-152+-+Improve+diagnostics+for+SASL+authentication+failures
    """
    authentication = connection.state(Authentication)
    place: ProblemPlace = {}
    reason = ""
    key = (connection.server, host_of(connection.client), connection.client_id, authentication.user)
    if isinstance(event, ConnectionEnded):
        if not authentication.raw or authentication.phase is not SaslPhase.TOKENS or event.by != "server":
            return
        reason = "closed after the tokens"
    elif event.message is not None:
        body = event.message.body
        if authentication.phase is SaslPhase.DONE:
            connection.run.state(_Failures).forget(key)
        if body.get("error_code") != _SASL_AUTHENTICATION_FAILED:
            return
        place = locate(event.message, "error_code")
        reason = repr((body.get("error_message") or "SASL_AUTHENTICATION_FAILED")[:_MAX_TEXT])
    times = connection.run.state(_Failures).count(key, event.at)
    mechanism = authentication.mechanism or "SASL"
    failed = f"{mechanism} login of client {connection.client_id!r} from {key[1]} at {connection.server} failed"
    hint = "check user, password and sasl.mechanism; the broker's log names the user"
    if times < _THRESHOLD:
        yield Problem(f"{failed}: {reason}", hint=hint, **place)
    else:
        yield Problem(f"{failed} {times} times, never successfully: {reason}", hint=hint, cause="again", **place)
