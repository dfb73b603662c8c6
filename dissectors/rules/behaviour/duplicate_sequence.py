"""S033: a batch whose sequence number was already sent."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.producers import Producers
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "S033",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.RESENT,
    needs=(Producers,),
    since="0.1",
    blame="client",
)
def duplicate_sequence(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a batch resent by an idempotent producer has the same bytes; also reports plain resends.

    ## Why it matters
    The broker identifies a batch only by producer, epoch and sequence. If it wrote the first attempt, it drops the
    second and reports success: records that are only in the second are lost.

    ## Usual cause
    A plain retry after an error or a timeout is correct and reported as info. Different bytes come from a client that
    rebuilds the batch for the retry, or assigns the sequence of an unanswered batch to another batch.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    close
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    A batch that is refused permanently; the client splits it in two and reuses its sequence numbers:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 10, "base_offset": -1}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 1, "records": [{"value": "b"}]}]}]}]}
    ```
    The same sequence from the next epoch:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"producer_id": 4000, "producer_epoch": 1, "base_sequence": 0, "records": [{"value": "b"}]}]}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
    https://github.com/confluentinc/librdkafka/pull/4750
    """
    for topic_partition, batch, earlier_batch, attempt, path in connection.run.state(Producers).resent:
        if batch.producer_id < 0:
            continue
        producer = f"producer {batch.producer_id} (epoch {batch.producer_epoch})"
        destination = f"under sequence {batch.base_sequence} to {label(topic_partition, connection)}"
        if (batch.crc, batch.batch_length, batch.records_count) == (
            earlier_batch.crc,
            earlier_batch.batch_length,
            earlier_batch.records_count,
        ):
            yield Problem(
                f"{producer} resends the batch {destination} unchanged; the first attempt "
                f"{attempt.outcome(topic_partition)}",
                **locate(event.message, *path),
                severity=Severity.INFO,
                cause=f"retry of {topic_partition[0]}",
            )
        else:
            yield Problem(
                f"{producer} resends different records {destination}; the first batch "
                f"{attempt.outcome(topic_partition)}: the "
                "broker cannot distinguish them",
                **locate(event.message, *path),
                hint="a retry must have the bytes of the first attempt, or the new records are dropped as duplicates; "
                "update the client",
                expected=f"{earlier_batch.records_count} records, CRC {earlier_batch.crc:#010x}",
                got=f"{batch.records_count} records, CRC {batch.crc:#010x}",
                cause=topic_partition[0],
            )
