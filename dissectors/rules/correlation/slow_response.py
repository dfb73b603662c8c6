"""C012: a slow response."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import allowed_ms, duration
from dissectors.trackers.in_flight import InFlight, request_text
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MS = 1_000_000

#: The waits that the protocol defines are not counted. Responses after less than a second are not examined.
MAX_DURATION = Limit("duration", 5, "s", "the server works on a request for longer than this", 1)

#: How much later than max_wait_ms (ns) the response to a fetch may come before it is reported as info.
MAX_DELAY = 1500 * _MS


@rule(
    "C012",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    only=FrameFlags.SLOW,
    needs=(InFlight, RebalanceTimeouts),
    limits=(MAX_DURATION,),
    since="0.1",
    blame="broker",
)
def slow_response(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a response takes at most 5 s longer than the request allows.

    ## Why it matters
    Clients time out after 10 s to 60 s, close the connection and retry, which slows down an overloaded server even
    more.

    A fetch that took more than 5 s, and 1.5 s longer than max_wait_ms, is reported as info: records come late, but
    nobody gives up.

    ## Usual cause
    An overloaded or stalled broker (disk, garbage collection, a full request queue), or a network that loses packets.
    The rule does not count max_wait_ms of a Fetch, the rebalance timeout of a group, timeout_ms, throttling, or the
    time until older requests on the connection were answered.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    +6s
    < {}
    ```

    ```story
    > Fetch v11 {"max_wait_ms": 5000, "topics": []}
    +7s
    < {}
    ```

    ## Look-alikes
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    +20s
    < {"error_code": 0}
    ```
    ```story
    > Metadata v8 {"topics": []}
    < {"throttle_time_ms": 20000}
    > Metadata v8 {"topics": []}
    +20s
    < {}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_request.timeout.ms
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-219+-+Improve+quota+communication
    """
    request, message = event.request, event.message
    limit = connection.run.limit(MAX_DURATION) * SECOND
    if request is None or message is None or event.at - request.at <= limit:
        return
    flight = connection.state(InFlight)
    if not flight.awaited:
        return
    allowed = allowed_ms(request.message, connection.run.state(RebalanceTimeouts))
    throttled_ms = message.body.get("throttle_time_ms") or 0  # before Kafka 2.0 the response itself was held back
    elapsed = event.at - flight.started_at
    excess = elapsed - (allowed + throttled_ms) * _MS
    is_late = excess > MAX_DELAY and message.api in ("Fetch", "ShareFetch")
    if excess > limit or is_late:
        allowance = f", of which the request allows {duration(allowed * _MS)}" if allowed else ""
        yield Problem(
            f"the response to {request_text(request)} took {duration(elapsed)}{allowance}",
            hint="check the broker's load (request queue, disk, garbage collection) and the network to it",
            severity=None if excess > limit else Severity.INFO,
            cause=str(message.version) if excess > limit else f"{message.version} late",
        )
