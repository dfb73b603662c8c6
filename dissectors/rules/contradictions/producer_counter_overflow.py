"""S084: an idempotent producer whose sequence or epoch has overflowed."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.topic_records import topic_records
from dissectors.records.formats import CONTROL
from dissectors.records.record_checks import BatchSpan
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_HIGHEST_SEQUENCE, _HIGHEST_EPOCH = (1 << 31) - 1, (1 << 15) - 1
_UNSET = -1


@rule(
    "S084",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    since="0.1",
    blame="client",
)
def producer_counter_overflow(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a producer with an id has a sequence and an epoch that are not negative.

    ## Why it matters
    The broker refuses the batch (INVALID_RECORD or INVALID_PRODUCER_EPOCH), and each one after it.

    ## Usual cause
    A counter that overflows. After sequence 2147483647 comes 0; after epoch 32767 the producer needs a new id, which it
    gets with InitProducerId. Or a client that sets the producer id of a batch but not its epoch and sequence.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 7001, "producer_epoch": 0, "base_sequence": -2147483648, "records": [{"value": "a"}]}]}]}]}
    ```
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 7001, "producer_epoch": -32768, "base_sequence": 0, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    A producer without an id, and sequences that wrap to 0:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "records": [{"value": "a"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 7001, "producer_epoch": 0, "base_sequence": 2147483647, "records": [{"value": "a"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 7001, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "b"}]}]}]}]}
    ```

    ## Sources
    https://github.com/redpanda-data/redpanda/issues/4854
    https://github.com/confluentinc/librdkafka/issues/3720
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
    """
    message = event.message
    for i, topic in enumerate(topic_records(message)):
        for j, partition in enumerate(topic.partitions):
            if (batch := partition.batch) is not None and (overflow := _overflow_text(batch)) is not None:
                (text, hint), topic_partition = overflow, (topic.key, partition.partition or 0)
                yield Problem(
                    f"producer {batch.producer_id} sends {label(topic_partition, connection)} a batch with {text}",
                    **locate(message, "topic_data", i, "partition_data", j, "records"),
                    hint=hint,
                    cause=text.split()[0],
                )


def _overflow_text(batch: BatchSpan) -> tuple[str, str] | None:
    """Return which counter of a producer is negative, and what to change, or None if neither is."""
    if batch.producer_id < 0 or batch.attributes & CONTROL:  # transaction markers have no sequence
        return None
    for name, value, highest, next_step in (
        ("producer_epoch", batch.producer_epoch, _HIGHEST_EPOCH, "get a new producer id with InitProducerId"),
        ("base_sequence", batch.base_sequence, _HIGHEST_SEQUENCE, "continue with 0"),
    ):
        if value == _UNSET:
            return f"{name} -1, although it has a producer id", f"fix the client: set {name} with the producer id"
        if value < 0:
            return f"{name} {value}: it has overflowed", f"fix the client: after {name} {highest}, {next_step}"
    return None
