"""L007: a bare error code instead of a complete body."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L007",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def generic_error_body(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that an error response has all fields of its version.

    ## Why it matters
    Nearly every API needs more than a two-byte body, so the client cannot even read the error.

    ## Usual cause
    A server that answers every failure with the same generic code.

    ## Example
    ```story
    > Metadata v1 {"topics": [{"name": "orders"}]}
    # nothing but error_code 3
    < hex 00000006 00000001 0003
    ```

    ## Look-alikes
    ```story
    > Metadata v1 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "topics": []}
    ```

    ## Sources
    https://github.com/seaweedfs/seaweedfs/pull/8762
    """
    yield from layout_problems(event, "generic_error_body")
