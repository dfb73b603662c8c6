"""X006: a client without SASL on a listener that requires it."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.authentication import Listeners
from dissectors.trackers.connection_endings import CLOSED_BEFORE_LOGIN, ConnectionEndings
from dissectors.trackers.recurrence import Recurrence
from dissectors.trackers.state import ConnectionState

_THRESHOLD = 3


class _Rejections(Recurrence):
    """Counts closed connections by server."""


@rule(
    "X006",
    severity=Severity.ERROR,
    events=(ConnectionEnded,),
    needs=(ConnectionEndings, Listeners),
    since="0.1",
    blame="client",
)
def sasl_required(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that clients log in first on a listener that requires SASL.

    ## Why it matters
    The broker answers ApiVersions, then silently closes the connection at the first other request. Clients report
    "disconnected", retry at once, and never name the cause.

    ## Usual cause
    The client lacks security.protocol=SASL_PLAINTEXT or SASL_SSL, or uses the wrong port. kproxy is certain if it saw
    another login to the same listener. Otherwise it counts, because a broker may close for other reasons: the first
    two times are info. A listener that has served a client without SASL does not require it: see C013 and C015.

    ## Example
    ```story
    2> SaslHandshake v1 {"mechanism": "PLAIN"}
    2< {"mechanisms": ["PLAIN"]}
    2> SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    2< {}
    > ApiVersions v0
    < {"api_keys": [{"api_key": 3, "max_version": 9}]}
    > Metadata v9 {"topics": null}
    close by=server how=fin
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0
    < {"api_keys": [{"api_key": 3, "max_version": 9}]}
    > Metadata v9 {"topics": null}
    < {}
    > Metadata v9 {"topics": null}
    close by=server how=reset
    2> ApiVersions v0
    2< {"api_keys": [{"api_key": 3, "max_version": 9}]}
    2> Metadata v9 {"topics": null}
    2 close by=client how=fin
    ```

    The listener has served a client without SASL:
    ```story
    1> ListGroups v2
    1< {}
    2> ApiVersions v0
    2< {"api_keys": [{"api_key": 3, "max_version": 9}]}
    2> Metadata v9 {"topics": null}
    2 close by=server how=fin
    ```

    ## Sources
    https://kafka.apache.org/protocol#sasl_handshake
    https://github.com/confluentinc/librdkafka/blob/master/src/rdkafka_broker.c
    """
    endings = connection.run.state(ConnectionEndings)
    if endings.cause != CLOSED_BEFORE_LOGIN:
        return
    first = endings.unanswered[0]
    api, request = first.message.api, ConcernedRequest.of(first)
    ending = f"server {connection.server} closed at the first {api}"
    login_hint = (
        "set security.protocol=SASL_SSL or SASL_PLAINTEXT with sasl.mechanism on the client, or use another listener"
    )
    if connection.server in connection.run.state(Listeners).sasl:
        yield Problem(f"{ending} of a client without SASL: this listener requires it", hint=login_hint, request=request)
        return
    times = connection.run.state(_Rejections).count(connection.server, event.at)
    times_text, severity = ("", Severity.INFO) if times < _THRESHOLD else (f", {times} times", None)
    yield Problem(
        f"{ending} and did not answer it{times_text}; it has served no client without SASL, so the listener may be one "
        "that requires it",
        severity=severity,
        hint=f"if the listener requires SASL, {login_hint}; if not, the broker's log says why it closes at {api}",
        cause="again" if times_text else "",
        request=request,
    )
