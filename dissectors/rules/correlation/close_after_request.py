"""C015: a request that makes the server close the connection."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.connection_endings import CLOSED_UPON_REQUEST, ConnectionEndings
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState


@rule(
    "C015",
    severity=Severity.ERROR,
    events=(ConnectionEnded,),
    needs=(ConnectionEndings, InFlight),
    since="0.1",
    blame="client",
)
def close_after_request(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a server does not repeatedly close the connection after the same request of a client.

    ## Why it matters
    Kafka does not answer a request that it cannot read or does not allow: it closes the connection. The client sees
    "disconnected" and retries forever.

    ## Usual cause
    The server cannot read or does not allow the request, a proxy in front of it does not know the API, or the port
    expects TLS. Reported from the second connection on, if the server closed within 5 s each time and never answered
    this API version to this client. V004 covers a version that the server advertises but never serves; X006 covers a
    listener that seems to require SASL.

    ## Example
    ```story
    1> Metadata v8 {"topics": []}
    1< {}
    1> CreateTopics v2 {"topics": [{"name": "bad name"}]}
    1 close by=server how=fin
    2> Metadata v8 {"topics": []}
    2< {}
    2> CreateTopics v2 {"topics": [{"name": "bad name"}]}
    2 close by=server how=fin
    ```
    ```story
    1> ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    1 close by=server how=fin
    2> ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    2 close by=server how=fin
    ```

    ## Look-alikes
    A broker that was stopped twice; it answered requests of that kind before:
    ```story
    1> Metadata v12 {"topics": []}
    1< {}
    1> Metadata v12 {"topics": []}
    1 close by=server how=reset
    2> Metadata v12 {"topics": []}
    2 close by=server how=reset
    ```

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/4887
    https://github.com/oleksiyk/kafka/issues/177
    """
    endings = connection.run.state(ConnectionEndings)
    if endings.cause != CLOSED_UPON_REQUEST:
        return
    request = endings.unanswered[0].message
    reason = "it refuses this request"
    if not connection.state(InFlight).served:
        reason += ", or nothing behind this address works"
    yield Problem(
        f"{connection.server} closed {endings.times} connections after {request.api} v{request.version} and "
        "never answered"
        f" one: {reason}",
        hint="check the server's log; try a lower version of the API; check that the port expects this security"
        " protocol (TLS, SASL), and that every proxy in between knows the API",
        cause=f"{request.api} v{request.version}",
        request=ConcernedRequest.of(endings.unanswered[0]),
    )
