"""C020: a request that is still waiting for its response."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import DeadlinePassed
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.connections_by_client import ConnectionsByClient
from dissectors.trackers.in_flight import LATE_AFTER, LATE_DEADLINE, InFlight, request_text
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.waits import explain_wait


@rule(
    "C020",
    severity=Severity.WARNING,
    events=(DeadlinePassed,),
    deadline=LATE_DEADLINE,
    needs=(ConnectionsByClient, InFlight, RebalanceTimeouts),
    limits=(LATE_AFTER,),
    since="0.1",
    blame="broker",
)
def request_waits(event: DeadlinePassed, connection: ConnectionState) -> Iterator[Problem]:
    """Reports that the oldest request of a connection waits for its response, 5 s longer than it allows.

    ## Why it matters
    A server answers the requests of a connection in order: this request hangs, and so does everything behind it. C004
    (C007 for Produce) follows 30 s after the time that the request itself allows.

    ## Usual cause
    A server that drops the response, or that is stuck on this request. The finding says what the server did last, on
    this connection and on the client's other ones. The allowed time includes max_wait_ms of a Fetch, the rebalance
    timeout of a group, and a throttle time.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < {}
    > ListGroups v2 {}
    +6s
    ```

    ## Look-alikes
    A Fetch may take max_wait_ms, a JoinGroup until the slowest member has joined, and a slow response is not lost:
    ```story
    > Fetch v11 {"max_wait_ms": 60000, "topics": []}
    +62s
    < {}
    > Metadata v8 {"topics": []}
    +4s
    < {}
    > Metadata v8 {"topics": []}
    +4s
    < {}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_request.timeout.ms
    """
    request = connection.state(InFlight).take_late_request(event.at, connection)
    if request is not None:
        waited, wait = duration(event.at - request.at), explain_wait(request, event.at, connection)
        yield Problem(
            f"{request_text(request)} has waited {waited} for its response: {wait.text}",
            hint="find out why the server does not answer it; what the client sends on this connection waits behind it",
            cause=f"{request.message.api} v{request.message.version}",
            request=ConcernedRequest.of(request),
        )
