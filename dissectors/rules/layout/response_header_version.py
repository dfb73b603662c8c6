"""L008: a response with the wrong header version."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule("L008", severity=Severity.ERROR, events=(ResponseReceived,), broken=True, only=FrameFlags.IRREGULAR, since="0.1")
def response_header_version(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a response has the right header: flexible versions have a tag buffer, others do not.

    ## Why it matters
    One extra or missing byte after the correlation id shifts the whole body. librdkafka has crashed on it.

    ## Usual cause
    A server with incomplete support for flexible versions. ApiVersions is the exception: its responses never have a
    tag buffer in the header, so that a client can read the response to a version that the broker does not know.

    ## Example
    ```story
    > Metadata v9 {"topics": [{"name": "orders"}]}
    # no tag buffer after the correlation id
    < hex 0000002b 00000001 00000000 02000000 01093130 2e302e30 2e310000 23840000 056b5232 68000000
             01018000 000000
    ```

    ## Look-alikes
    ```story
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    # its header never has tags (KIP-511)
    < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 3}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/kafka-protocol-rs/kafka-protocol-rs/issues/113
    """
    yield from layout_problems(event, "header_version")
