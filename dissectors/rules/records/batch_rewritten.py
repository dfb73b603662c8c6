"""R003: a batch that the broker returns with different bytes than were produced."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.records.batch import CRC_START
from dissectors.records.faults import FaultKind
from dissectors.records.formats import LOG_OVERHEAD
from dissectors.records.record_checks import BatchSpan
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import PartitionData, RecordData, faults_of_kind, problem_location
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.stored_batches import StoredBatches
from dissectors.trackers.triggers import FrameFlags


@rule(
    "R003",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData, StoredBatches),
    since="0.1",
    blame="broker",
)
def batch_rewritten(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a batch is fetched with the same bytes with which it was produced.

    ## Why it matters
    A batch normally travels unchanged from the producer through the broker's log to the consumer. Its CRC, which does
    not cover offsets, stays the same. A batch that was rewritten may have lost headers, timestamps or sequence
    numbers, and costs CPU.

    ## Usual cause
    A gateway that stores records instead of batches. Kafka itself rewrites a batch to change its compression,
    timestamp type or maximum timestamp, and to compact a topic; these cases are not reported.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a", "headers": [{"key": "h", "value": "v"}]}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 7}]}]}
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 8, "records": [
      {"base_offset": 7, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    A topic with `message.timestamp.type=LogAppendTime`, and a topic with another `compression.type`:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [
      {"name": "orders", "partition_data": [{"records": [{"records": [{"value": "a", "timestamp": 1767225600000}]}]}]},
      {"name": "events", "partition_data": [{"records": [{"records": [{"value": "a"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 7}]},
      {"name": "events", "partition_responses": [{"base_offset": 7}]}]}
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 7}]},
      {"topic": "events", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 8, "records": [
      {"base_offset": 7, "timestamp_type": "LogAppendTime", "max_timestamp": 1767225600123,
       "base_timestamp": 1767225600000, "records": [{"value": "a", "create_timestamp": 1767225600000}]}]}]},
      {"topic": "events", "partitions": [{"high_watermark": 8, "records": [
      {"base_offset": 7, "compression": "gzip", "records": [{"value": "a"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/seaweedfs/seaweedfs/issues/7231
    """
    for part, index, produced in connection.run.state(StoredBatches).rewritten:
        batch = part.batches[index]
        if _may_be_rewritten_by_kafka(produced, batch) or _is_damaged(event, connection, part):
            continue
        start, size = batch.start + CRC_START - 4, produced.batch_length + LOG_OVERHEAD
        yield Problem(
            f"{label(part.topic_partition, connection)}: the batch at offset {batch.base_offset} was produced with CRC "
            f"0x{produced.crc:08x} and {size} bytes, but is fetched with CRC 0x{batch.crc:08x} and "
            f"{batch.end - batch.start}",
            **problem_location(event, part, start, start + 4, str(index), "crc"),
            hint="compare both batches field by field: consumers lose what the server leaves out",
            expected=f"0x{produced.crc:08x}",
            got=f"0x{batch.crc:08x}",
            cause=part.topic_partition[0],
        )


def _is_damaged(event: ResponseReceived, connection: ConnectionState, part: PartitionData) -> bool:
    return any(faulty_part is part for faulty_part, _ in faults_of_kind(event, connection, FaultKind.CRC))


def _may_be_rewritten_by_kafka(produced: BatchSpan, fetched: BatchSpan) -> bool:
    """Whether the batches differ in a field that Kafka itself may change."""
    return (produced.attributes, produced.max_timestamp, produced.records_count) != (
        fetched.attributes,
        fetched.max_timestamp,
        fetched.records_count,
    )
