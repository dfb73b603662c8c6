"""C007: a Produce request with acks other than 0 that gets no response."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import DeadlinePassed
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.in_flight import OVERDUE_PRODUCE, InFlight, request_text
from dissectors.trackers.state import ConnectionState


@rule(
    "C007",
    severity=Severity.ERROR,
    events=(DeadlinePassed,),
    deadline=OVERDUE_PRODUCE,
    needs=(InFlight,),
    since="0.1",
    blame="broker",
)
def acks_nonzero_silent(event: DeadlinePassed, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a Produce request with acks other than 0 is answered within its timeout_ms plus 30 s.

    ## Why it matters
    The producer keeps the records and sends them again on another connection, so records that were stored are
    duplicated. Once its buffer is full, it blocks.

    ## Usual cause
    A server that treats a Produce without topics, or one it could not store, as if no response were needed. Kafka
    answers after timeout_ms at the latest, with REQUEST_TIMED_OUT.

    ## Example
    ```story
    > Produce v7 {"acks": 1, "timeout_ms": 5000, "topic_data": []}
    +36s
    ```

    ## Look-alikes
    ```story
    > Produce v7 {"acks": -1, "timeout_ms": 30000, "topic_data": []}
    +50s
    < {}
    > Produce v7 {"acks": 0, "timeout_ms": 1000, "topic_data": []}
    +5m
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_Produce
    https://github.com/514-labs/moosestack/issues/3885
    """
    for request in connection.state(InFlight).take_overdue(OVERDUE_PRODUCE, event.at, connection):
        body = request.message.body
        topics_note = "" if body.get("topic_data") else " and no topics"
        yield Problem(
            f"no answer to {request_text(request)} with acks={body.get('acks')}{topics_note} after "
            f"{duration(event.at - request.at)}",
            hint="answer every Produce whose acks is not 0, including requests without topics and failed ones",
            cause=topics_note,
            request=ConcernedRequest.of(request),
        )
