"""C016: a request on a connection that the other side closed while it was idle."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.connection_endings import CLOSED_WHILE_IDLE, ConnectionEndings
from dissectors.trackers.in_flight import InFlight, request_text
from dissectors.trackers.state import ConnectionState


@rule(
    "C016",
    severity=Severity.WARNING,
    events=(ConnectionEnded,),
    needs=(ConnectionEndings, InFlight),
    since="0.1",
    blame="network",
)
def idle_close_race(_: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the first request after 30 s or more of silence does not meet a closed connection.

    ## Why it matters
    The client loses this request and must send it again. A client without retries fails once after every pause.

    ## Usual cause
    The broker (connections.max.idle.ms, 10 minutes), a load balancer, NAT or service mesh (1 to 5 minutes) closed the
    idle connection while the client, whose own idle timeout is longer, still considered it open.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < {}
    +4m
    > Metadata v8 {"topics": []}
    close by=server how=reset
    ```

    ## Look-alikes
    An idle connection that ends without a request in flight; one that ends with recent traffic is C013:
    ```story
    > Metadata v8 {"topics": []}
    < {}
    +10m
    close by=server how=fin
    ```
    ```story
    > Metadata v8 {"topics": []}
    < {}
    +4m
    > Metadata v8 {"topics": []}
    < {}
    > Metadata v8 {"topics": []}
    close by=server how=reset
    ```

    ## Sources
    https://kafka.apache.org/documentation/#brokerconfigs_connections.max.idle.ms
    https://github.com/IBM/sarama/issues/760
    https://github.com/confluentinc/librdkafka/issues/2845
    https://github.com/Azure/azure-event-hubs-for-kafka/issues/107
    """
    endings = connection.run.state(ConnectionEndings)
    if endings.cause != CLOSED_WHILE_IDLE:
        return
    idle = duration(connection.state(InFlight).idle_ns)
    yield Problem(
        f"{request_text(endings.unanswered[0])} was the first request after {idle} of silence, and its "
        "connection was closed",
        hint="make the client close idle connections sooner (connections.max.idle.ms), or use TCP keep-alive",
        request=ConcernedRequest.of(endings.unanswered[0]),
    )
