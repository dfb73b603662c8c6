"""R002: a CRC with the wrong polynomial, or over the wrong bytes."""

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
    "R002",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def wrong_crc_polynomial(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a batch's CRC uses the right polynomial and covers the right bytes.

    ## Why it matters
    Nobody can read such batches: every one looks corrupt, although no byte is damaged.

    ## Usual cause
    Standard CRC-32 (IEEE, zlib) instead of CRC-32C (Castagnoli), which format 2 batches use; or the right polynomial
    over bytes other than those from the attributes to the end of the batch. Formats 0 and 1 use IEEE, from the magic
    byte on.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records":
      "000000000000000000000039ffffffff02f0bde5b50000000000000000019b76daa8000000019b76daa800ffffffffff
      ffffffffffffffffff000000010e00000001026100"}]}]}
    ```

    ## Look-alikes
    Messages of format 1, which use the IEEE polynomial:
    ```story
    > Produce v2 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"magic": 1, "records": [{"value": "a", "timestamp": 1767225600000}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/seaweedfs/seaweedfs/issues/7231
    https://github.com/kafka-protocol-rs/kafka-protocol-rs/issues/62
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.OTHER_CHECKSUM):
        yield fault_problem(
            event,
            connection,
            part,
            fault,
            "compute CRC-32C (Castagnoli) over the bytes from the attributes to the end of the batch",
        )
