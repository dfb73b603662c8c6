"""L010: compact lengths in a non-flexible version, or fixed-width lengths in a flexible one."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import is_records_edit, layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L010",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def compact_vs_fixed(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that lengths are compact in flexible versions and fixed-width in others.

    ## Why it matters
    A client reads a two- or four-byte fixed length as a compact one, or the reverse, and then expects millions of
    elements or none.

    ## Usual cause
    A server that advertises a flexible version but answers in the layout of the previous version, or a field that was
    missed when the message became flexible.

    ## Example
    ```story
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    # version 3 without compact lengths and tag buffers
    < hex 0000001a 00000001 00000000 00020003 00000009 00120000 00030000 0000
    ```

    ## Look-alikes
    ```story
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 3}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/seaweedfs/seaweedfs/pull/7231
    """
    yield from layout_problems(
        event, "flexibility", "length_encoding", accepts_edit=lambda edit: not is_records_edit(edit)
    )
