"""C006: a server or proxy that waits for the response to a Produce request with acks=0."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import DeadlinePassed
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.in_flight import OVERDUE_BLOCKED, InFlight, requests_text
from dissectors.trackers.state import ConnectionState


@rule(
    "C006",
    severity=Severity.ERROR,
    events=(DeadlinePassed,),
    deadline=OVERDUE_BLOCKED,
    needs=(InFlight,),
    since="0.1",
    blame="proxy",
)
def acks0_waited(event: DeadlinePassed, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a connection still works after a Produce request with acks=0.

    ## Why it matters
    Such a request has no response. A server or proxy that waits for one stops serving the connection: the client's
    next request times out, often a Metadata request minutes later.

    ## Usual cause
    A proxy that pairs every request with a response. Reported when the first request after the Produce is not answered
    within 30 s beyond the time that it allows, while the connection stays open.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < {}
    > Produce v7 {"acks": 0, "topic_data": []}
    > Metadata v8 {"topics": []}
    +31s
    ```

    ## Look-alikes
    A producer that sends nothing more, and an overdue request although later ones were answered (C004):
    ```story
    > Produce v7 {"acks": 0, "topic_data": []}
    +10m
    ```
    ```story
    > Produce v7 {"acks": 0, "topic_data": []}
    > Metadata v8 {"topics": []}
    < {}
    > Metadata v8 {"topics": []}
    +31s
    ```

    ## Sources
    https://github.com/grepplabs/kafka-proxy/issues/54
    https://github.com/shotover/shotover-proxy/issues/1188
    https://github.com/segmentio/kafka-go/issues/176
    """
    late_requests = connection.state(InFlight).take_overdue(OVERDUE_BLOCKED, event.at, connection)
    if late_requests:
        yield Problem(
            f"no answer to {requests_text(late_requests)} after {duration(event.at - late_requests[0].at)};"
            " a Produce with acks=0 preceded it, and something seems to wait for its response",
            hint="a Produce with acks=0 has no response: proxies and servers must not wait for one",
            request=ConcernedRequest.of(late_requests[0]),
        )
