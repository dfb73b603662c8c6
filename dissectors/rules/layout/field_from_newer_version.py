"""L005: a field from another version."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L005",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def field_from_newer_version(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a message has no field that only another version has.

    ## Why it matters
    Strict clients report leftover bytes and fail; lenient ones read the wrong fields.

    ## Usual cause
    A server that always writes one layout, usually the newest it knows, whatever version was requested.

    ## Example
    ```story
    > ApiVersions v0
    # throttle_time_ms of version 1 at the end of version 0
    < hex 0000001a 00000001 00000000 00020003 00000009 00120000 00030000 0000
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0
    < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 3}]}
    ```

    ## Sources
    https://github.com/seaweedfs/seaweedfs/pull/7231
    https://github.com/travisjeffery/jocko/issues/153
    """
    yield from layout_problems(event, "field_from_version")
