"""S038: a broker that reports the time that a Fetch waited for data as throttle time."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MS = 1_000_000
_THRESHOLD = 3
_FIRST_CLIENT_THROTTLED = 8


class _Streak:
    """Consecutive empty responses whose throttle_time_ms equals their latency."""

    length = 0


@rule(
    "S038",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.THROTTLED,
    needs=(Fetches, InFlight),
    since="0.1",
    blame="broker",
)
def throttle_as_longpoll(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that throttle_time_ms of a Fetch is not the time that the broker waited for data.

    ## Why it matters
    A client obeys and waits that long again before its next fetch: every empty poll takes twice as long, and new
    records arrive up to max_wait_ms late. Sarama waited 100 to 112 ms after every fetch from one gateway.

    ## Usual cause
    A gateway that sets throttle_time_ms to the duration of the request. Kafka answers a throttled Fetch at once (from
    v8 on), so the two never match. Reported at the third match in a row.

    ## Example
    ```story
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1}
    +499ms
    < {"throttle_time_ms": 500}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1}
    +499ms
    < {"throttle_time_ms": 500}
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1}
    +499ms
    < {"throttle_time_ms": 500}
    ```

    ## Look-alikes
    ```story
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1}
    < {"throttle_time_ms": 500}
    +500ms
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1}
    < {"throttle_time_ms": 500}
    +500ms
    > Fetch v11 {"max_wait_ms": 500, "min_bytes": 1}
    < {"throttle_time_ms": 500}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-219+-+Improve+quota+communication
    https://github.com/seaweedfs/seaweedfs/pull/7329
    """
    message, request = event.message, event.request
    if message is None or (throttle_ms := message.body.get("throttle_time_ms", 0)) <= 0:
        return
    request_body = event.request_body
    if request_body is None or request is None or message.version < _FIRST_CLIENT_THROTTLED:
        return
    streak = connection.state(_Streak)
    waited_ms = (event.at - request.at) / _MS
    max_wait_ms = request_body.get("max_wait_ms", 0)
    matches = abs(waited_ms - throttle_ms) <= 0.2 * throttle_ms and throttle_ms <= 1.25 * max_wait_ms
    if not matches or not connection.state(Fetches).is_response_empty:
        streak.length = 0
        return
    streak.length += 1
    if streak.length >= _THRESHOLD:
        yield Problem(
            f"server {connection.server} reports the {throttle_ms} ms that an empty Fetch waited for data as "
            "throttling",
            hint="fix the broker: throttle_time_ms is for quotas, and clients wait that long again",
            expected="0",
            got=str(throttle_ms),
            **locate(message, "throttle_time_ms"),
        )
