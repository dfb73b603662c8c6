"""C011: a request that waits behind a blocking one on its connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import LONG_POLLS, allowed_ms, duration
from dissectors.trackers.in_flight import request_text
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

MAX_WAIT = Limit("wait", 1, "s", "a request waits so long behind a Fetch, JoinGroup or SyncGroup", 0.1)


@dataclass(slots=True)
class _BlockingRequest:
    """The latest request that may block: its time and the end of its wait (ns), and the API.

    `until` counts only the time that the request allows: a longer wait is not the client's choice.
    """

    requested_at: int = 0
    until: int = 0
    api: str = ""


@rule(
    "C011",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    only=FrameFlags.SLOW,
    needs=(RebalanceTimeouts,),
    limits=(MAX_WAIT,),
    since="0.1",
    blame="client",
)
def head_of_line_blocked(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that no request waits 1 s or more behind a Fetch, JoinGroup or SyncGroup on its connection.

    ## Why it matters
    A server answers the requests of a connection in order. A Metadata, Produce or Heartbeat request behind a Fetch
    waits up to max_wait_ms; behind a JoinGroup, up to the rebalance timeout. Heartbeats that arrive too late cost the
    member its place in the group.

    ## Usual cause
    A client that uses one connection per broker for everything, with a long fetch.max.wait.ms, or one client object
    shared by a producer and a consumer group. The Java client uses a separate connection to the coordinator.

    ## Example
    ```story
    > Fetch v11 {"max_wait_ms": 5000, "topics": []}
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}
    +5s
    < {}
    < {}
    ```

    ## Look-alikes
    Fetches that wait for each other; a wait of half a second, the default of fetch.max.wait.ms:
    ```story
    > Fetch v11 {"max_wait_ms": 5000, "topics": []}
    > Fetch v11 {"max_wait_ms": 5000, "topics": []}
    +5s
    < {}
    +5s
    < {}
    > Fetch v11 {"max_wait_ms": 500, "topics": []}
    > Metadata v8 {"topics": []}
    +500ms
    < {}
    < {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_network
    https://github.com/dpkp/kafka-python/issues/1748
    """
    request, message = event.request, event.message
    if (
        request is None
        or message is None
        or (event.at - request.at < connection.run.limit(MAX_WAIT) * SECOND and message.api not in LONG_POLLS)
    ):
        return
    if message.api in LONG_POLLS:
        blocking = connection.state(_BlockingRequest)
        allowed = allowed_ms(request.message, connection.run.state(RebalanceTimeouts)) * 1_000_000
        blocking.requested_at, blocking.api = request.at, message.api
        blocking.until = min(event.at, request.at + allowed)
    else:
        blocking = connection.state(_BlockingRequest)
        waited = blocking.until - request.at
        if blocking.requested_at <= request.at and waited >= connection.run.limit(MAX_WAIT) * SECOND:
            yield Problem(
                f"{request_text(request)} waited {duration(waited)} behind a {blocking.api}, which may block on the "
                "server",
                hint="use a separate connection for blocking requests (Fetch, JoinGroup, SyncGroup), or a shorter wait",
                cause=blocking.api,
            )
