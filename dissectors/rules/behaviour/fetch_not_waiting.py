"""S088: a broker that answers empty fetches at once, instead of waiting for records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.fetches import EARLY_RESPONSES, Fetches
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: The early responses must all fall within this time (ns): a slower client waits between its fetches.
_MAX_DURATION = 60 * SECOND


@rule(
    "S088",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(Fetches,),
    since="0.1",
    blame="broker",
)
def fetch_not_waiting(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a broker waits up to max_wait_ms for records before it answers a fetch with an empty response.

    ## Why it matters
    Consumers fetch again at once, because they rely on the broker to wait. A consumer without records then sends
    hundreds of requests a second, and keeps a core of the broker busy.

    ## Usual cause
    A broker or gateway that does not implement max_wait_ms and min_bytes.

    Reported after 20 empty responses in a row within a minute, each after less than a quarter of max_wait_ms, without
    an error, throttling, or records that the consumer has not read. A partition that ends before the fetch offset, as
    on a new leader that does not know its high watermark yet, keeps any broker from waiting.

    ## Example
    ```story
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    ```

    ## Look-alikes
    A consumer that does not want to wait:
    ```story
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    > Fetch v11 {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"records": ""}]}]}
    ```

    ## Sources
    https://github.com/streamnative/kop/issues/699
    https://github.com/redpanda-data/redpanda/issues/1115
    https://kafka.apache.org/documentation/#consumerconfigs_fetch.max.wait.ms
    """
    fetches, message, request_body = connection.state(Fetches), event.message, event.request_body
    if message is None or request_body is None or event.request is None or not fetches.is_response_empty:
        return
    elapsed = event.at - fetches.early_since
    if not fetches.early or fetches.early % EARLY_RESPONSES or elapsed > _MAX_DURATION or _is_redirected(message.body):
        return
    yield Problem(
        f"{connection.server} answered {fetches.early} fetches in a row with no records within {duration(elapsed)}, "
        f"the last after {duration(event.at - event.request.at)}, although they ask it to wait "
        f"{request_body['max_wait_ms']} ms "
        f"for {request_body['min_bytes']} byte{'s' if request_body['min_bytes'] > 1 else ''}",
        **locate(message),
        hint="fix the broker: without min_bytes of records it must wait up to max_wait_ms before it answers",
    )


def _is_redirected(body: Mapping[str, Any]) -> bool:
    """Whether a response sends the consumer to another replica, which needs no waiting (KIP-392)."""
    return any(
        row.get("preferred_read_replica", -1) >= 0
        for topic in body.get("responses") or ()
        for row in topic.get("partitions") or ()
    )
