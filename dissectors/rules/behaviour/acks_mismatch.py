"""S046: a Produce request whose acks are invalid, or too low for an idempotent producer."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.topic_records import topic_records
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_ALL = -1
_VALID = (_ALL, 0, 1)


@rule(
    "S046",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    since="0.1",
    blame="client",
)
def acks_mismatch(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that acks in a Produce request is -1, 0 or 1, and that it is -1 for an idempotent producer.

    ## Why it matters
    Brokers refuse other values with INVALID_REQUIRED_ACKS. Idempotent writes are exactly-once and in order only if all
    in-sync replicas store them: with acks 0 or 1, a new leader may lack a batch, and every later batch fails with
    OUT_OF_ORDER_SEQUENCE_NUMBER.

    ## Usual cause
    An old "acks=2" setting, or a client that sets producer ids but copies acks from its configuration unchecked.

    ## Example
    ```story
    > Produce v7 {"acks": 2, "topic_data": []}
    ```
    ```story
    > Produce v7 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records":
        [{"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "v"}]}]}]}]}
    ```

    ## Look-alikes
    ```story
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records":
        [{"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "v"}]}]}]}]}
    > Produce v7 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records":
        [{"records": [{"value": "v"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_acks
    https://github.com/apache/kafka/pull/1680
    https://github.com/segmentio/kafka-go/issues/176
    """
    message = event.message
    acks = message.body.get("acks", _ALL)
    if acks == _ALL or not connection.server:
        return  # a frame without a connection may have been written by hand
    if acks not in _VALID:
        yield Problem(
            f"Produce of client {message.client_id!r} has acks {acks}, which must be -1 (all), 0 or 1",
            hint="set acks=all on the client, and min.insync.replicas on the topic",
            expected="-1, 0 or 1",
            got=str(acks),
            **locate(message, "acks"),
        )
        return
    for topic in topic_records(message)[:1]:
        for records in topic.partitions[:1]:
            if (batch := records.batch) is not None and batch.producer_id >= 0:
                yield Problem(
                    f"client {message.client_id!r} sends batches of producer id {batch.producer_id} with acks {acks}: "
                    "an idempotent producer needs -1 (all)",
                    severity=Severity.WARNING,
                    hint="set acks=all, or turn idempotence off",
                    expected="-1",
                    got=str(acks),
                    **locate(message, "acks"),
                )
