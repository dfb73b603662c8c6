"""R016: offsets that do not increase."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.records.faults import FaultKind
from dissectors.rules import rule
from dissectors.trackers.record_data import RecordData, fault_problem, faults_of_kind
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "R016",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def offsets_not_monotonic(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that offsets increase from record to record and from batch to batch.

    ## Why it matters
    A consumer skips offsets that it has already seen, or reads records twice. In a produced batch, offset deltas count
    up from 0: a broker stores uncompressed batches unchanged, so its log would have two records with one offset.

    ## Usual cause
    Deltas that are all 0, start at 1, or are plain instead of zigzag varints, or a server that joins batches but keeps
    the producers' offsets.

    ## Example
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 4, "records": [
      {"base_offset": 0, "records": [{"value": "a"}, {"value": "b"}]},
      {"base_offset": 1, "records": [{"value": "c"}]}]}]}]}
    ```
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"last_offset_delta": 1, "records": [{"value": "a", "offset": 0}, {"value": "b", "offset": 0}]}]}]}]}
    ```

    ## Look-alikes
    Gaps that compaction and transaction markers leave:
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 9, "records": [
      {"base_offset": 0, "records": [{"value": "a", "offset": 1}, {"value": "b", "offset": 4}]},
      {"base_offset": 8, "records": [{"value": "c", "offset": 8}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/IBM/sarama/issues/1037
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.OFFSETS):
        yield fault_problem(
            event,
            connection,
            part,
            fault,
            "set each record's offset delta to its index in the batch, and each base offset above the previous offset",
        )
