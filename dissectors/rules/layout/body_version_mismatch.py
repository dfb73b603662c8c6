"""L006: a body in the layout of another version."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L006",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def body_version_mismatch(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a response body has the layout of the requested version.

    ## Why it matters
    The client reads the fields of the version that it requested: it sees garbage, or bytes are left over.

    ## Usual cause
    A server with only one layout per API, or a proxy that passes on a response for a version other than the one that
    the client requested.

    ## Example
    ```story
    > FindCoordinator v0 {"key": "g"}
    # the body of version 1 in answer to version 0
    < hex 0000001f 00000001 00000000 00000000 00000000 00093132 372e302e 302e3100 00fe6c
    ```

    ## Look-alikes
    ```story
    > FindCoordinator v0 {"key": "g"}
    < {"node_id": 0, "host": "127.0.0.1", "port": 65132}
    ```

    ## Sources
    https://github.com/apache/kafka/pull/1128
    https://github.com/kroxylicious/kroxylicious/issues/2467
    """
    yield from layout_problems(event, "body_version")
