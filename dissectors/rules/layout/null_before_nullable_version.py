"""L020: null in a version that does not allow it yet."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L020",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def null_before_nullable_version(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that no field is null in a version that does not allow it yet.

    ## Why it matters
    A strict peer refuses the message; a lenient one may take null for empty, which can mean something else: in
    Metadata v0, an empty list requests all topics, later it requests none.

    ## Usual cause
    A client that applies the newest semantics to an old version.

    ## Example
    ```story
    # topics is null, which Metadata v0 does not allow
    > hex 00000011 00030000 00000001 00036170 70ffffff ff
    ```

    ## Look-alikes
    ```story
    > Metadata v1 {"topics": null}
    ```

    ## Sources
    https://github.com/apache/kafka/pull/12864
    https://github.com/redpanda-data/redpanda/issues/5451
    """
    yield from layout_problems(
        event, "null_in_non_nullable", accepts_edit=lambda edit: dict(edit.detail)["nullable_from"] is not None
    )
