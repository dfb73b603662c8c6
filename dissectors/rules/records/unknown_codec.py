"""R012: a compression codec that does not exist."""

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
    "R012",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def unknown_codec(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a batch uses a compression codec that exists in its format.

    ## Why it matters
    Brokers refuse the batch, and consumers cannot read it. 0 to 4 are none, gzip, snappy, lz4 and zstd; formats 0 and
    1 do not support zstd.

    ## Usual cause
    Other bits of the attributes, such as the timestamp type, are shifted by one or written into the three codec bits.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records":
      "000000000000000000000039ffffffff0208e6882f0005000000000000019b76daa8000000019b76daa800ffffffffff
      ffffffffffffffffff000000010e00000001026100"}]}]}
    ```

    ## Look-alikes
    The bits above the codec: LogAppendTime, transactional.
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 1, "records": [
      {"compression": "zstd", "timestamp_type": "LogAppendTime", "is_transactional": true, "producer_id": 5,
       "producer_epoch": 0, "base_sequence": 0, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-110%3A+Add+Codec+for+ZStandard+Compression
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.CODEC):
        yield fault_problem(
            event,
            connection,
            part,
            fault,
            "the codec is in bits 0 to 2 of the attributes, timestamp type in bit 3, transactional in 4, control in 5",
        )
