"""C021: a request that TCP sends again and again, on a connection that something on the path has forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.connection_endings import UNREACHABLE, ConnectionEndings
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState


@rule(
    "C021",
    severity=Severity.ERROR,
    events=(ConnectionEnded,),
    needs=(ConnectionEndings, InFlight),
    since="0.1",
    blame="network",
)
def idle_connection_lost(_: ConnectionEnded, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that TCP acknowledges requests. It needs packets, so it works for a capture but not for a proxy.

    A request is reported if TCP sent one of its packets at least four times before the connection ended.

    ## Why it matters
    The client waits until its request times out, for 30 s or more, before it opens another connection. To users, the
    cluster hangs after every pause, and nothing is in the broker's log.

    ## Usual cause
    After a pause: a load balancer, NAT or firewall has dropped the idle connection without a reset, because its idle
    timeout is shorter than that of the client and the broker (4 minutes at Azure, 350 s at AWS; Kafka's clients close
    after 9 minutes). Otherwise the path to the broker is interrupted, or its machine is gone.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < {}
    +5m
    > Produce v8 {"acks": -1}
    +30s
    close sent=8
    ```

    ## Look-alikes
    A request that TCP has acknowledged, or that it has sent twice, since packets are lost sometimes:
    ```story
    > Metadata v8 {"topics": []}
    < {}
    +5m
    > Metadata v8 {"topics": []}
    +30s
    close by=client how=fin
    ```
    ```story
    > Metadata v8 {"topics": []}
    < {}
    +5m
    > Metadata v8 {"topics": []}
    close sent=2
    ```

    ## Sources
    https://github.com/Azure/azure-event-hubs-for-kafka/issues/105
    https://github.com/confluentinc/librdkafka/issues/3109
    https://kafka.apache.org/documentation/#producerconfigs_connections.max.idle.ms
    """
    endings = connection.run.state(ConnectionEndings)
    if endings.cause != UNREACHABLE:
        return
    flight, request = connection.state(InFlight), endings.unanswered[0]
    message = request.message
    request_name = f"the {message.api} v{message.version} (correlation id {message.correlation_id})"
    sent_text = f"was sent {endings.times} times and never acknowledged by TCP"
    if request.offset == flight.first_after_idle:
        yield Problem(
            f"{request_name} after {duration(flight.idle_ns)} of silence {sent_text}",
            hint="something on the path has dropped the idle connection without a reset: lower connections.max.idle.ms "
            "of the client below its idle timeout, or use TCP keep-alive",
            cause=connection.server,
            request=ConcernedRequest.of(request),
        )
    else:
        yield Problem(
            f"{request_name} {sent_text}",
            hint=f"packets to {connection.server} are lost: check the path, and whether its machine is up",
            cause=connection.server,
            request=ConcernedRequest.of(request),
        )
