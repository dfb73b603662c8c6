"""C008: a request with the correlation id of another request in flight."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.in_flight import InFlight, request_text
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "C008",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    broken=True,
    only=FrameFlags.UNPAIRED,
    needs=(InFlight,),
    since="0.1",
    blame="client",
)
def corr_id_reused_in_flight(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that no two requests in flight on a connection have the same correlation id.

    ## Why it matters
    The server copies the id into the response without checking it. The client cannot tell the two responses apart, and
    may read one with the layout of the other.

    ## Usual cause
    A client that shares a connection between threads without locking its counter, or a proxy that multiplexes several
    clients on one connection and keeps their ids.

    ## Example
    ```story
    > #5 Metadata v8 {"topics": []}
    > #5 ListGroups v2 {}
    ```

    ## Look-alikes
    Reusing an id is correct as long as one request is in flight at a time; a Produce with acks=0 is not in flight:
    ```story
    > #5 Metadata v8 {"topics": []}
    < {}
    > #5 Produce v7 {"acks": 0, "topic_data": []}
    > #5 ListGroups v2 {}
    < {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    https://github.com/dpkp/kafka-python/issues/1586
    """
    older = connection.state(InFlight).reused
    if older is not None:
        yield Problem(
            f"the request has the correlation id of {request_text(older)}, which is still in flight",
            8,
            12,
            "header.correlation_id",
            hint="increment the correlation id for every request on a connection",
            got=str(event.message.correlation_id),
        )
