"""R017: a fetch that omits the batch with the requested offset."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import problem_location
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.stored_batches import StoredBatches
from dissectors.trackers.triggers import FrameFlags


@rule(
    "R017",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(StoredBatches,),
    since="0.1",
    blame="broker",
)
def fetch_skips_batch(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a fetch begins with the batch that contains the requested offset.

    ## Why it matters
    The consumer assumes that missing records were compacted away and continues after them: records are silently lost.

    ## Usual cause
    A server that looks for the first batch that begins at or after the offset. After a commit or a seek, clients
    request offsets in the middle of a batch: the server must send the whole batch, and the client drops the records
    before the offset.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a"}, {"value": "b"}, {"value": "c"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 0}]}]}
    > Fetch v12 {"session_epoch": -1, "topics": [{"topic": "orders", "partitions": [{"fetch_offset": 1}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 4, "records": [
      {"base_offset": 3, "records": [{"value": "d"}]}]}]}]}
    ```

    ## Look-alikes
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a"}, {"value": "b"}, {"value": "c"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 0}]}]}
    > Fetch v12 {"session_epoch": -1, "topics": [{"topic": "orders", "partitions": [{"fetch_offset": 1}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 3, "records": [
      {"records": [{"value": "a"}, {"value": "b"}, {"value": "c"}]}]}]}]}
    > Fetch v12 {"session_epoch": -1, "topics": [{"topic": "orders", "partitions": [{"fetch_offset": 3}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 6, "records": [
      {"base_offset": 5, "records": [{"value": "d"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_Fetch
    https://cwiki.apache.org/confluence/display/KAFKA/A+Guide+To+The+Kafka+Protocol
    """
    for part, offset, base_offset, last_offset in connection.run.state(StoredBatches).skipped:
        first = part.batches[0]
        yield Problem(
            f"{label(part.topic_partition, connection)}: requested offset {offset} is in the batch "
            f"{base_offset}..{last_offset}, but the fetch begins with the batch at {first.base_offset}",
            **problem_location(event, part, first.start, first.start + 8, "0", "base_offset"),
            hint="begin with the batch whose last offset is at or after the requested offset",
            expected=str(base_offset),
            got=str(first.base_offset),
            cause=part.topic_partition[0],
        )
