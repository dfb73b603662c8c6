"""L019: null in a non-nullable field."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L019",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def null_in_non_nullable(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that no non-nullable field is null.

    ## Why it matters
    Kafka's own classes refuse the whole message ("non-nullable field was serialized as null"); other readers crash
    later.

    ## Usual cause
    A writer whose language does not distinguish null from empty.

    ## Example
    ```story
    > ListOffsets v2 {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    # topics has the length -1
    < hex 0000000c 00000001 00000000 ffffffff
    ```

    ## Look-alikes
    ```story
    > ListOffsets v2 {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": -1, "offset": 42}]}]}
    ```

    ## Sources
    https://github.com/confluentinc/confluent-kafka-python/issues/2185
    https://kafka.apache.org/protocol#protocol_types
    """
    yield from layout_problems(
        event, "null_in_non_nullable", accepts_edit=lambda edit: dict(edit.detail)["nullable_from"] is None
    )
