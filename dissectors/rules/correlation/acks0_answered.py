"""C005: a response to a Produce request with acks=0."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.in_flight import ANSWERS_ACKS_0, InFlight
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "C005",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    broken=True,
    only=FrameFlags.UNPAIRED,
    needs=(InFlight,),
    since="0.1",
    blame="broker",
)
def acks0_answered(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a Produce request with acks=0 gets no response.

    ## Why it matters
    The client expects no response, so it takes this one for the answer to its next request. That response and all
    later ones are off by one.

    ## Usual cause
    A server that answers every Produce regardless of acks, or only when the Produce fails. Kafka never answers; it
    closes the connection if such a Produce fails.

    ## Example
    ```story
    > Produce v7 {"acks": 0, "topic_data": []}
    < #1 as Produce v7 {}
    ```

    ## Look-alikes
    ```story
    > Produce v7 {"acks": 0, "topic_data": []}
    > Produce v7 {"acks": 1, "topic_data": []}
    < {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_Produce
    https://github.com/streamnative/kop/pull/1898
    """
    if event.request is not None or event.damaged:
        return
    kind, _ = connection.state(InFlight).stray or ("", None)
    if kind == ANSWERS_ACKS_0:
        yield Problem(
            f"the Produce with correlation id {event.correlation_id} has acks=0 but was answered",
            4,
            8,
            "header.correlation_id",
            hint="send no response to a Produce with acks=0, not even an error",
            expected="no response",
        )
