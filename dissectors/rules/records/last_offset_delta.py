"""R006: last_offset_delta differs from the offset delta of the last record."""

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
    "R006",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def last_offset_delta(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that last_offset_delta of a batch is the offset delta of its last record.

    ## Why it matters
    A consumer continues after base_offset + last_offset_delta: if the delta is too small, it reads the batch again and
    again; if it is too large, it skips records. Brokers refuse a produced batch whose delta is not its count minus 1.

    ## Usual cause
    The field is left at 0, or holds the record count.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"last_offset_delta": 0, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    ```

    ## Look-alikes
    Compaction removes records and keeps the delta:
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 10, "records": [
      {"last_offset_delta": 9, "records": [{"key": "a", "value": "a"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/IBM/sarama/issues/1026
    https://github.com/redpanda-data/redpanda/issues/14966
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.LAST_OFFSET):
        yield fault_problem(
            event, connection, part, fault, "set last_offset_delta to the offset delta of the last record"
        )
