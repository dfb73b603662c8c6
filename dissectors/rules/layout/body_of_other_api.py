"""L039: a body of another API."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L039",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def body_of_other_api(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a body belongs to the API of its request.

    ## Why it matters
    The peer reads the fields of the API that it expects, from bytes that have another meaning.

    ## Usual cause
    A server whose handler for one API returns the response of another API with a similar name.

    ## Example
    ```story
    > AddOffsetsToTxn v1 {"transactional_id": "t", "producer_id": 4, "producer_epoch": 0, "group_id": "billing"}
    # the response of AddPartitionsToTxn
    < hex 0000002a 00000001 00000000 00000001 00125f5f 636f6e73 756d6572 5f6f6666 73657473 00000001 0000000c 0000
    ```

    ## Look-alikes
    ```story
    > AddOffsetsToTxn v1 {"transactional_id": "t", "producer_id": 4, "producer_epoch": 0, "group_id": "billing"}
    < {"error_code": 51}
    ```

    ## Sources
    https://github.com/streamnative/kop/pull/885
    """
    yield from layout_problems(event, "body_of_api")
