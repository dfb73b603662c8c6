"""R004: lengths in record data that contradict each other."""

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
    "R004",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def batch_length_mismatch(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the lengths of batches and records match their actual bytes.

    ## Why it matters
    Readers rely on the lengths. If they disagree with the bytes, a reader fails, silently skips records, or takes the
    middle of one record for the next.

    ## Usual cause
    A length that is set before the last bytes are written, that counts the uncompressed bytes, or that includes its
    own field. Bytes appended to a finished batch.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records":
      "000000000000000000000039ffffffff0255232dac0000000000000000019b76daa8000000019b76daa800ffffffffff
      ffffffffffffffffff000000010e00000008026100"}]}]}
    ```

    ## Look-alikes
    Fetched records that end in the middle of a batch, which is allowed:
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 9, "records":
      "000000000000000000000039ffffffff02 7e22e4f2 0000000000000000019b76daa8000000019b76daa800
      ffffffffffffffffffffffffffff00000001 0e00000001026100
      0000000000000001 00000100 ffffffff 02"}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/apache/kafka/issues/3156
    https://github.com/tulios/kafkajs/issues/1440
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.LENGTH):
        yield fault_problem(
            event,
            connection,
            part,
            fault,
            "batch_length counts the bytes from the leader epoch to the end; a record's length counts the "
            "bytes after it",
        )
