"""L011: compact lengths that are not the length plus one."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L011",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def compact_length_off_by_one(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that compact lengths are encoded as the length plus one.

    ## Why it matters
    Every string and array is read one byte or element short or long.

    ## Usual cause
    KIP-482 reserves 0 for null, so 1 means empty. A writer that encodes the length itself turns empty values into
    null.

    ## Example
    ```story
    > Metadata v9 {"topics": [{"name": "orders"}]}
    # every compact length is one too small
    < hex 0000002c 00000001 00000000 00010000 00010831 302e302e 302e3100 00238400 00046b52 32680000
             00010080 00000000
    ```

    ## Look-alikes
    ```story
    > Metadata v9 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "cluster_id": "kR2h", "controller_id": 1}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    """
    yield from layout_problems(event, "length_off_by_one")
