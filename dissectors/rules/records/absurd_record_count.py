"""R019: a record count that is impossible for the size of the batch."""

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
    "R019",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def absurd_record_count(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the record count of a batch is possible for its number of bytes.

    ## Why it matters
    A client that allocates memory for that many records before reading them runs out of memory, from a frame of a few
    bytes.

    ## Usual cause
    The count is uninitialized, negative, or read from the wrong position. It may also be an attack.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records":
      "000000000000000000000039ffffffff0297cdb8800000000000000000019b76daa8000000019b76daa800ffffffffff
      ffffffffffffffffff7fffffff0e00000001026100"}]}]}
    ```

    ## Look-alikes
    Many small records:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/kafka-protocol-rs/kafka-protocol-rs/issues/156
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.ABSURD_COUNT):
        yield fault_problem(
            event,
            connection,
            part,
            fault,
            "write the actual number of records; readers should not allocate memory based on the count alone",
        )
