"""C002: a response that overtakes an older request."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.in_flight import InFlight, request_text
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "C002",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    broken=True,
    only=FrameFlags.UNPAIRED,
    needs=(InFlight,),
    since="0.1",
    blame="broker",
)
def out_of_order_response(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that responses arrive in the order of their requests.

    ## Why it matters
    Kafka guarantees the order on a connection, and clients rely on it: the Java client fails with "Correlation id for
    response does not match request" and closes the connection.

    ## Usual cause
    A server or proxy that processes the requests of one connection in parallel. A request that gets no response at
    all while newer ones do is C004.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    > ApiVersions v2 {}
    < #2 {}
    < {}
    ```
    ```hex request
    00 00 00 0a  00 12 00 00  00 00 00 01  ff ff    # ApiVersions v0, correlation_id 1
    ```
    ```hex request
    00 00 00 0a  00 12 00 00  00 00 00 02  ff ff    # ApiVersions v0, correlation_id 2
    ```
    ```hex response
    00 00 00 0a  00 00 00 02  00 00  00 00 00 00    # answers the second first
    ```
    ```hex response
    00 00 00 0a  00 00 00 01  00 00  00 00 00 00    # then the first
    ```

    ## Look-alikes
    A Produce with acks=0 has no response, so later responses do not overtake it. Bytes that the capture lacks may hold
    the missing response. A response that never comes:
    ```story
    > Produce v7 {"acks": 0, "topic_data": []}
    > Metadata v8 {"topics": []}
    < {}
    ```
    ```story
    > Metadata v8 {"topics": []}
    lose < 100
    > ApiVersions v2 {}
    < #2 {}
    ```
    ```story
    > Metadata v8 {"topics": []}
    > ApiVersions v2 {}
    < #2 {}
    +2s
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_network
    https://github.com/redpanda-data/redpanda/issues/25636
    https://github.com/IBM/sarama/issues/992
    """
    overtaking = connection.state(InFlight).overtaken_by
    if overtaking is None or event.request is None:
        return
    yield Problem(
        f"the response to {request_text(event.request)} came {duration(event.at - overtaking.at)} after the response "
        f"to the newer {request_text(overtaking.newer)}",
        4,
        8,
        "header.correlation_id",
        hint="the server must answer the requests of a connection in the order in which they came",
    )
