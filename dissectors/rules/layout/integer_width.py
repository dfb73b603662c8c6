"""L036: an integer of the wrong width."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L036",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def integer_width(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that integers have the width that the protocol defines.

    ## Why it matters
    Extra or missing bytes shift everything that follows.

    ## Usual cause
    An int64 in the writer's language where the protocol has an int32, or an int32 for an error code.

    ## Example
    ```story
    > ListOffsets v2 {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    # the timestamp -1 is written as int32
    < hex 0000002a 00000001 00000000 00000001 00066f72 64657273 00000001 00000000 0000ffff ffff0000
             00000000 002a
    ```

    ## Look-alikes
    ```story
    > ListOffsets v2 {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": -1, "offset": 42}]}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_types
    """
    yield from layout_problems(event, "int_width")
