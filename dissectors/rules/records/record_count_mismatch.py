"""R005: a record count that differs from the number of records."""

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
    "R005",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def record_count_mismatch(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a batch has as many records as its header states.

    ## Why it matters
    Brokers assign offsets by the count in the header, and clients read that many records: if it is too high, the batch
    cannot be read; if it is too low, nobody sees the remaining records.

    ## Usual cause
    The count is written before the last record is added or dropped, or counts batches or bytes.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records":
      "000000000000000000000041ffffffff02348898840000000000010000019b76daa8000000019b76daa800ffffffffff
      ffffffffffffffffff000000030e000000010261000e00000201026200"}]}]}
    ```

    ## Look-alikes
    A compacted batch has fewer records than offsets, but its count is correct:
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 10, "records": [
      {"last_offset_delta": 9, "records": [{"key": "a", "offset": 2}, {"key": "b", "offset": 7}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/apache/kafka/issues/4585
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.COUNT):
        yield fault_problem(
            event,
            connection,
            part,
            fault,
            "write records_count last, from the records that are actually in the batch",
        )
