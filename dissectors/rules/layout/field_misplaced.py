"""L003: a field of the right version in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L003",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def field_misplaced(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that every field is in its place among its siblings.

    ## Why it matters
    Fields have no names on the wire: a misplaced field shifts every field between its actual and its correct place,
    and the reader sees meaningless lengths, codes and ids. Clients hang, loop, or report too few remaining bytes.

    ## Usual cause
    throttle_time_ms is the classic case: Kafka puts it first in most responses but last in some old ones (Produce,
    Fetch v0), and servers with handwritten layouts confuse the two.

    ## Example
    ```story
    > JoinGroup v2 {"group_id": "g", "session_timeout_ms": 10000}
    # throttle_time_ms last instead of first
    < hex 0000002c 00000001 00000000 00010005 72616e67 6500036d 2d310003 6d2d3100 00000100 036d2d31
             00000000 00000000
    ```

    ## Look-alikes
    ```story
    > JoinGroup v2 {"group_id": "g", "session_timeout_ms": 10000}
    < {"generation_id": 1, "protocol_name": "range", "leader": "m-1", "member_id": "m-1"}
    ```

    ## Sources
    https://github.com/seaweedfs/seaweedfs/pull/7231
    https://github.com/segmentio/kafka-go/issues/949
    """
    yield from layout_problems(event, "field_moved")
