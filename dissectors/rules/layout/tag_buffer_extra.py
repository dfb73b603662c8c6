"""L013: a tag buffer in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L013",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def tag_buffer_extra(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that structs end with one tag buffer in flexible versions and with none in others.

    ## Why it matters
    An extra zero byte shifts what follows; at the end of a message, strict clients report a leftover byte.

    ## Usual cause
    A writer that adds the tag buffer twice, in the header's code and in the body's, or in non-flexible versions.

    ## Example
    ```story
    > ListOffsets v2 {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    # a byte 0 after the body of version 2
    < hex 0000002f 00000001 00000000 00000001 00066f72 64657273 00000001 00000000 0000ffff ffffffff
             ffff0000 00000000 002a00
    ```

    ## Look-alikes
    ```story
    > ListOffsets v2 {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": -1, "offset": 42}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/seaweedfs/seaweedfs/pull/7231
    """
    yield from layout_problems(event, "tag_buffer_extra")
