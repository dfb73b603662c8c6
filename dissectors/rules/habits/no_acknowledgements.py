"""S090: a producer that requests no acknowledgements."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.produce_habits import ACKS_0, ProduceHabits
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "S090",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(ProduceHabits,),
    limits=(ACKS_0,),
    since="0.1",
    blame="client",
)
def no_acknowledgements(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports producers that send with acks=0: records that the broker refuses or loses are lost without an error.

    ## Why it matters
    The broker does not answer such a request. The producer counts its records as delivered once they are written to the
    socket: it notices no error, does not retry, and gets no offsets.

    ## Usual cause
    `acks=0` for speed. With acks=1 or all and several requests in flight, throughput is about the same. acks=0 is fine
    for data that may be lost, such as metric samples.

    ## Example
    ```story
    rule S090:requests=3
    > Produce v9 {"acks": 0, "topic_data": []}
    > Produce v9 {"acks": 0, "topic_data": []}
    > Produce v9 {"acks": 0, "topic_data": []}
    ```

    ## Look-alikes
    ```story
    rule S090:requests=3
    > Produce v9 {"acks": 0, "topic_data": []}
    > Produce v9 {"acks": 0, "topic_data": []}
    > Produce v9 {"acks": 1, "topic_data": []}
    < {"responses": []}
    > Produce v9 {"acks": 0, "topic_data": []}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_acks
    """
    if count := connection.state(ProduceHabits).unacknowledged:
        yield Problem(
            f"{client_label(connection)} sent {count} Produce requests in a row with acks=0: the broker acknowledges "
            "none of them, and nobody notices records that it refuses",
            hint="set acks=all, or acks=1; leave acks=0 only if records may be lost",
            cause="acks=0",
        )
