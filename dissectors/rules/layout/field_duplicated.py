"""L035: a field is written twice."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L035",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def field_duplicated(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that every field is written only once.

    ## Why it matters
    A reader that checks for leftover bytes fails ("4 unread bytes"). If the copy comes before other fields, those are
    shifted.

    ## Usual cause
    One piece of code writes throttle_time_ms first, and another writes it last.

    ## Example
    ```story
    > JoinGroup v2 {"group_id": "g", "session_timeout_ms": 10000}
    # throttle_time_ms first and last
    < hex 00000030 00000001 00000000 00000000 00010005 72616e67 6500036d 2d310003 6d2d3100 00000100
             036d2d31 00000000 00000000
    ```

    ## Look-alikes
    ```story
    > JoinGroup v2 {"group_id": "g", "session_timeout_ms": 10000}
    < {"generation_id": 1, "protocol_name": "range", "leader": "m-1", "member_id": "m-1"}
    ```

    ## Sources
    https://github.com/seaweedfs/seaweedfs/pull/7231
    https://kafka.apache.org/protocol#The_Messages_JoinGroup
    """
    yield from layout_problems(event, "field_duplicated")
