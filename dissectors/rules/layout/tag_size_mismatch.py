"""L017: a tagged field whose size prefix is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L017",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def tag_size_mismatch(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that the size of a tagged field matches the bytes of its value.

    ## Why it matters
    A reader that trusts the size and one that trusts the value continue at different bytes: one of them reads garbage.

    ## Usual cause
    The size is computed for another encoding, or omits the tag buffer of a struct in the value.

    ## Example
    ```story
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    # tag 1 has size 9, but its value has eight bytes
    < hex 00000024 00000001 00000300 03000000 09000012 00000003 00000000 00010109 00000000 00000007
    ```

    ## Look-alikes
    ```story
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 3}],
         "finalized_features_epoch": 7}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/confluentinc/librdkafka/pull/4278
    """
    yield from layout_problems(event, "tag_size")
