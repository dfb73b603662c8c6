"""L004: a field of this version is missing."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L004",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def field_missing_for_version(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a message has every field of its version.

    ## Why it matters
    The reader takes the bytes of the next field for the missing one, and everything after it is shifted.

    ## Usual cause
    A server that answers a newer version with the code for an older one, or omits throttle_time_ms because it never
    throttles.

    ## Example
    ```story
    > ListOffsets v2 {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    # throttle_time_ms, new in version 2, is missing
    < hex 0000002a 00000001 00000001 00066f72 64657273 00000001 00000000 0000ffff ffffffff ffff0000
             00000000 002a
    ```

    ## Look-alikes
    ```story
    > ListOffsets v2 {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": -1, "offset": 42}]}]}
    ```

    ## Sources
    https://issues.apache.org/jira/browse/KAFKA-3427
    https://github.com/apache/kafka/pull/1128
    """
    yield from layout_problems(event, "field_missing")
