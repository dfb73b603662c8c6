"""R016: offsets that stand still or go back."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.records.faults import FaultKind
from dissectors.rules import rule
from dissectors.trackers.record_data import RecordData, fault_problem, faults
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
    """Checks that offsets grow from record to record and from batch to batch.

    ## Why it matters
    A consumer takes what goes back for what it has seen and skips it, or reads it twice. In a produced batch offset
    deltas count up from 0: a broker stores uncompressed ones as they are, and the log has two records at one offset.

    ## Usual cause
    Deltas are all 0, count from 1, or are written as plain varints and not as zigzag ones; a server joins batches and
    leaves their offsets as the producers wrote them.

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

    ## Looks alike
    Gaps, as compaction and transaction markers leave them:
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
    for part, fault in faults(event, connection, FaultKind.OFFSETS):
        yield fault_problem(
            event,
            connection,
            part,
            fault,
            "give each record its place in the batch as offset delta, and each batch a base offset after the last one",
        )
