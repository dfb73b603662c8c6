"""L009: a request with the wrong header version."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule("L009", severity=Severity.ERROR, events=(RequestReceived,), broken=True, only=FrameFlags.IRREGULAR, since="0.1")
def request_header_version(event: RequestReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a request has the right header: flexible versions have a tag buffer after the client id.

    ## Why it matters
    The broker reads the body one byte off and closes the connection, or answers something else.

    ## Usual cause
    A client that supports a flexible version of the body but not its header.

    ## Example
    ```story
    # no tag buffer after the client id
    > hex 0000001a 00030009 00000001 00036170 7002076f 72646572 73000100 0000
    ```

    ## Look-alikes
    ```story
    > Metadata v9 {"topics": [{"name": "orders"}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/dpkp/kafka-python/issues/2151
    """
    yield from layout_problems(event, "header_version")
