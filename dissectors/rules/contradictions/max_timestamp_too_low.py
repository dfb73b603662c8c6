"""S072: a batch whose max_timestamp is below the timestamp of its first record."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.records.formats import DELETE_HORIZON, TIMESTAMP_TYPE
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import RecordData, problem_location, record_data
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

#: Start and end of max_timestamp in a batch.
_MAX_TIMESTAMP_SPAN = (35, 43)
_FORMAT_2 = 2

#: With these attributes, base_timestamp is the broker's time, or when the batch's tombstones may be deleted.
_OTHER_TIME_ATTRIBUTES = TIMESTAMP_TYPE | DELETE_HORIZON


@rule(
    "S072",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    also=(Trigger((ResponseReceived,), ("Fetch", "ShareFetch"), only=FrameFlags.IRREGULAR),),
    needs=(RecordData,),
    since="0.1",
)
def max_timestamp_too_low(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a batch's max_timestamp is not below its base_timestamp, which is that of its first record.

    ## Why it matters
    Brokers use max_timestamp for their time index without reading the records: with -1, ListOffsets by timestamp does
    not find the records, and retention.ms does not delete them, or deletes them at once. In a Produce request, this is
    reported as info: Kafka recomputes the field, but other servers may store it.

    ## Usual cause
    A writer that leaves max_timestamp at its default, -1, or that fills it in before it adds the records. A broker or
    tool that rebuilds batches, e.g. in compaction or replication.

    ## Example
    ```story
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"base_timestamp": 1767225600000, "max_timestamp": -1, "records": [{"timestamp": 1767225600000}]}]}]}]}
    ```

    ## Look-alikes
    No timestamps at all, and the broker's timestamps:
    ```story
    > Produce v7 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [
       {"base_timestamp": -1, "max_timestamp": -1, "records": [{"timestamp": -1}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 0}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 1, "records": [
       {"timestamp_type": "LogAppendTime", "base_timestamp": 1767225600000, "max_timestamp": 1767225599000,
        "records": [{}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    """
    for part in record_data(event, connection).parts:
        for index, batch in enumerate(part.batches):
            if (
                batch.max_timestamp >= batch.base_timestamp
                or batch.attributes & _OTHER_TIME_ATTRIBUTES
                or batch.magic != _FORMAT_2
            ):
                continue
            start, end = _MAX_TIMESTAMP_SPAN
            yield Problem(
                f"{label(part.topic_partition, connection)}, batch {index}: max_timestamp is {batch.max_timestamp}, "
                f"but the first record has timestamp {batch.base_timestamp}",
                **problem_location(event, part, batch.start + start, batch.start + end, str(index), "max_timestamp"),
                hint="fix the writer of the batch: max_timestamp is the highest timestamp of its records",
                blame="client" if isinstance(event, RequestReceived) else "broker",
                severity=Severity.INFO if isinstance(event, RequestReceived) else None,
                expected=f"{batch.base_timestamp} or later",
                got=str(batch.max_timestamp),
                cause=part.topic_partition[0],
            )
