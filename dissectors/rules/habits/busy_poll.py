"""S031: a consumer that does not let the broker wait for records."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.fetches import BUSY_POLLS, Fetches
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

RATE = Limit("rate", 20, "responses", "and there are at least so many per second on a connection")


@rule(
    "S031",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(Fetches,),
    limits=(BUSY_POLLS, RATE),
    since="0.1",
    blame="client",
)
def busy_poll(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that consumers let the broker wait: frequent empty fetches with max_wait_ms near 0 waste CPU.

    ## Why it matters
    A Fetch that may wait returns as soon as there is a record, so waiting costs no latency. Without the wait, consumer,
    network and broker are busy with empty responses.

    ## Usual cause
    `fetch.max.wait.ms` (`fetch.wait.max.ms` in librdkafka) below 50, or `fetch.min.bytes` of 0.

    ## Example
    ```story
    rule S031:responses=3
    > Fetch v11 {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0}]}]}
    > Fetch v11 {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0}]}]}
    > Fetch v11 {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0}]}]}
    ```

    ## Look-alikes
    An occasional short poll. A broker that returns early although it may wait is a different fault (S088):
    ```story
    rule S031:responses=3
    > Fetch v11 {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0}]}]}
    +1s
    > Fetch v11 {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0}]}]}
    +1s
    > Fetch v11 {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_fetch.max.wait.ms
    https://kafka.apache.org/documentation/#consumerconfigs_fetch.min.bytes
    """
    fetches, run = connection.state(Fetches), connection.run
    limit = int(run.limit(BUSY_POLLS))
    request_body = event.request_body
    if fetches.polls == 0 or fetches.polls % limit or request_body is None:
        return
    elapsed = max(event.at - fetches.polls_since, 1)
    if limit * SECOND >= run.limit(RATE) * elapsed:
        yield Problem(
            f"{client_label(connection)} got {limit} empty Fetch responses in a row within {duration(elapsed)}: it "
            f"requests them with max_wait_ms {request_body.get('max_wait_ms')} and min_bytes "
            f"{request_body.get('min_bytes')}",
            hint="leave fetch.max.wait.ms at 500 and fetch.min.bytes at 1, so that the broker waits for records",
            cause="busy poll",
        )
