"""L012: a struct of a flexible version without its tag buffer."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L012",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def tag_buffer_missing(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that every struct of a flexible version ends with a tag buffer.

    ## Why it matters
    The reader takes the next byte for the number of tagged fields, and usually runs out of bytes.

    ## Usual cause
    The writer adds the tag buffer of the body but misses those of the structs in its arrays.

    ## Example
    ```story
    > OffsetFetch v6 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    # no tag buffer after the partition
    < hex 0000003e 00000001 00000000 0002076f 72646572 73030000 00000000 00000000 0007ffff ffff0278
             00000000 00010000 00000000 0009ffff ffff0278 00000000 0000
    ```

    ## Look-alikes
    ```story
    > OffsetFetch v6 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    < {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 7, "metadata": "x"}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/seaweedfs/seaweedfs/pull/7231
    """
    yield from layout_problems(event, "tag_buffer_missing")
