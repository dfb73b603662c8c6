"""L030: the correlation id or the size is written twice."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L030",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def duplicated_prefix(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that the size and the correlation id are written only once.

    ## Why it matters
    The body begins four bytes late: the client reads the second correlation id as its first field.

    ## Usual cause
    Both the code that frames a response and the code that writes its body add the correlation id.

    ## Example
    ```story
    > FindCoordinator v0 {"key": "g"}
    # the correlation id 1 is written twice
    < hex 0000001d 00000001 00000001 00000000 00000009 3132372e 302e302e 310000fe 6c
    ```

    ## Look-alikes
    ```story
    > FindCoordinator v0 {"key": "g"}
    < {"node_id": 0, "host": "127.0.0.1", "port": 65132}
    ```

    ## Sources
    https://github.com/seaweedfs/seaweedfs/pull/7231
    """
    yield from layout_problems(event, "duplicated_prefix")
