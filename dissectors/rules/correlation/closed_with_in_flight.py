"""C013: a server that closes a connection with requests in flight."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import LONG_POLLS
from dissectors.trackers.connection_endings import CLOSED_IN_FLIGHT, ConnectionEndings
from dissectors.trackers.in_flight import requests_text
from dissectors.trackers.state import ConnectionState


@rule(
    "C013",
    severity=Severity.WARNING,
    events=(ConnectionEnded,),
    needs=(ConnectionEndings,),
    since="0.1",
    blame="broker",
)
def closed_with_in_flight(event: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a server answers all requests before it closes a connection.

    ## Why it matters
    The client does not know whether the requests succeeded and sends them again, which without idempotence stores
    records twice. Its log says "N request(s) timed out: disconnect" or "connection reset by peer".

    ## Usual cause
    A broker that was stopped or crashed, a load balancer, or a request that the server refuses by closing (if it
    repeats: C015). This is info while only a Fetch or JoinGroup is waiting, because every restart looks like that, and
    if the server has closed three other connections in the last 2 s, as it does when it is stopped.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < {}
    > Produce v7 {"acks": -1, "topic_data": []}
    close by=server how=reset
    ```

    ## Look-alikes
    A server that closes an idle connection; a client that leaves; kproxy stops:
    ```story
    > Metadata v8 {"topics": []}
    < {}
    close by=server how=fin
    ```
    ```story
    > Metadata v8 {"topics": []}
    close by=client how=fin
    ```
    ```story
    > Metadata v8 {"topics": []}
    close by=proxy how=shutdown
    ```

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/2845
    https://github.com/confluentinc/librdkafka/issues/1579
    """
    endings = connection.run.state(ConnectionEndings)
    if endings.cause != CLOSED_IN_FLIGHT:
        return
    requests = [request.message for request in endings.unanswered]
    are_all_long_polls = all(request.api in LONG_POLLS for request in requests)
    shutdown_note = (
        "; it has just closed several others, as a server does that is stopped" if endings.is_shutdown else ""
    )
    verb = "reset" if event.how == "reset" else "closed"
    yield Problem(
        f"the server {verb} the connection while {requests_text(endings.unanswered)} waited for a response"
        f"{shutdown_note}",
        severity=Severity.INFO if are_all_long_polls or endings.is_shutdown else None,
        hint="check the server's log at that time, and what is between it and the client",
        cause=f"{requests[0].api} v{requests[0].version} {are_all_long_polls}",
        request=ConcernedRequest.of(endings.unanswered[0]),
    )
