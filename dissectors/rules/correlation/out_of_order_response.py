"""C002: a response that overtakes an older request."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.in_flight import InFlight, describe
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


class _Overtaken:
    """Unanswered requests before this stream offset have been reported."""

    def __init__(self) -> None:
        self.before = 0


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
    """Checks that responses come in the order of their requests.

    ## Why it matters
    Kafka guarantees the order on a connection, and clients rely on it: the Java client fails with "Correlation id for
    response does not match request" and closes the connection.

    ## Usual cause
    A server or proxy that processes the requests of one connection in parallel, or one that dropped the older
    response, which is then also overdue (C004).

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

    ## Looks alike
    A Produce with acks=0 has no response, so later responses do not overtake it. Bytes that the capture lacks may hold
    the missing response:
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

    ## Sources
    https://kafka.apache.org/protocol#protocol_network
    https://github.com/redpanda-data/redpanda/issues/25636
    https://github.com/IBM/sarama/issues/992
    """
    if not event.overtaken or event.request is None:
        return
    waiting = connection.state(InFlight).waiting
    oldest = next(iter(waiting.values()), None)
    state = connection.state(_Overtaken)
    if oldest is None or not state.before <= oldest.offset < event.request.offset:
        return
    state.before = event.request.offset
    yield Problem(
        f"the response to {describe(event.request)} comes before the response to the older {describe(oldest)}",
        4,
        8,
        "header.correlation_id",
        hint="answer every request of a connection, in order",
        expected=str(oldest.message.correlation_id),
        got=str(event.correlation_id),
    )
