"""L033: the length of record data is in the wrong encoding."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import is_records_edit, layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L033",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def record_set_length_encoding(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that the length of record data is compact in flexible versions and an int32 in others.

    ## Why it matters
    The reader takes the wrong number of bytes as records: batches are truncated, or the rest of the message is read as
    data.

    ## Usual cause
    Record data is often not written by the same code as the rest of the message.

    ## Example
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    # records have an int32 as their length
    < hex 00000042 00000001 00000000 00000000 00000002 076f7264 65727302 00000000 00000000 00000000
             00050000 00000000 00050000 00000000 000001ff ffffff00 00000000 0000
    ```

    ## Look-alikes
    ```story
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"partition_index": 0, "high_watermark": 5,
         "last_stable_offset": 5, "log_start_offset": 0}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/seaweedfs/seaweedfs/pull/7231
    """
    yield from layout_problems(event, "length_encoding", accepts_edit=is_records_edit)
