"""C010: too many requests in flight."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dissectors.connections.connection import PRODUCE
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.topic_records import topic_records
from dissectors.rules import rule
from dissectors.trackers.in_flight import USUAL_IN_FLIGHT, InFlight
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: Limit for all requests of a connection.
MAX_IN_FLIGHT = 1000

#: How many of the newest requests are searched for batches of the same producer.
_SEARCHED_REQUESTS = 32


class _ReportState:
    """Whether the connection has been reported, which happens only once."""

    def __init__(self) -> None:
        self.reported = False


@rule(
    "C010",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    only=FrameFlags.UNPAIRED,
    needs=(InFlight,),
    since="0.1",
    blame="client",
)
def too_many_in_flight(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that at most 1000 requests are in flight per connection, and 5 per partition of an idempotent producer.

    ## Why it matters
    The broker processes one request of a connection at a time: the last of a thousand waits for all others and times
    out. For each idempotent producer, it remembers the last five batches of a partition: if more are in flight and one
    is resent, it cannot tell that from a gap and answers OUT_OF_ORDER_SEQUENCE_NUMBER.

    ## Usual cause
    max.in.flight.requests.per.connection above 5 with enable.idempotence, in a client that does not forbid it, or a
    client without a limit and a broker that is slow or does not answer.

    ## Example
    ```story
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records":
        [{"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}]}]}]}]}
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records":
        [{"producer_id": 7, "producer_epoch": 0, "base_sequence": 1, "records": [{"value": "a"}]}]}]}]}
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records":
        [{"producer_id": 7, "producer_epoch": 0, "base_sequence": 2, "records": [{"value": "a"}]}]}]}]}
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records":
        [{"producer_id": 7, "producer_epoch": 0, "base_sequence": 3, "records": [{"value": "a"}]}]}]}]}
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records":
        [{"producer_id": 7, "producer_epoch": 0, "base_sequence": 4, "records": [{"value": "a"}]}]}]}]}
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records":
        [{"producer_id": 7, "producer_epoch": 0, "base_sequence": 5, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    Without idempotence, or for other partitions, more are fine:
    ```story
    > Produce v7 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": [{}]}]}]}
    > Produce v7 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": [{}]}]}]}
    > Produce v7 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": [{}]}]}]}
    > Produce v7 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": [{}]}]}]}
    > Produce v7 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": [{}]}]}]}
    > Produce v7 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": [{}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_max.in.flight.requests.per.connection
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
    https://github.com/dpkp/kafka-python/issues/1586
    """
    waiting = connection.state(InFlight).waiting
    if len(waiting) <= USUAL_IN_FLIGHT or (len(waiting) <= MAX_IN_FLIGHT and event.message.api_key != PRODUCE):
        return
    state = connection.state(_ReportState)
    if state.reported:
        return
    if len(waiting) > MAX_IN_FLIGHT:
        state.reported = True
        yield Problem(
            f"{len(waiting)} requests are in flight on the connection; each waits for all earlier ones",
            hint="limit the requests in flight (max.in.flight.requests.per.connection)",
        )
    elif (batch_key := _first_batch_key(event)) is not None:
        newest_requests = islice(reversed(waiting.values()), _SEARCHED_REQUESTS)
        count = sum(
            request.message.api_key == PRODUCE and _first_batch_key(request) == batch_key for request in newest_requests
        )
        if count > USUAL_IN_FLIGHT:
            state.reported = True
            topic, partition, producer_id = batch_key
            yield Problem(
                f"idempotent producer {producer_id} has {count} batches for {topic}[{partition}] in flight,"
                f" but the broker remembers only {USUAL_IN_FLIGHT}",
                hint=f"set max.in.flight.requests.per.connection to {USUAL_IN_FLIGHT} or less",
                expected=f"{USUAL_IN_FLIGHT} or less",
                got=str(count),
                cause="idempotent",
            )


def _first_batch_key(produce: RequestReceived) -> tuple[str, int | None, int] | None:
    """Return topic, partition and producer id of a Produce's first batch; None if its producer is not idempotent."""
    for topic in topic_records(produce.message)[:1]:
        for records in topic.partitions[:1]:
            if records.batch is not None and records.batch.producer_id >= 0:
                return topic.key, records.partition, records.batch.producer_id
    return None
