"""S036: a client that is throttled by a quota."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import client_key

TOTAL = Limit("total", 5, "s", "the throttle times of a client's responses add up to so much", 0.001)
WITHIN = Limit("within", 60, "s", "within this time")

_MAX_CLIENTS = 10_000
_MS = 1_000_000


class _ThrottledResponses:
    """The number of throttled responses of a client since `since` (ns), and their total throttle time."""

    def __init__(self) -> None:
        self.since = self.count = self.total_ms = 0


class _ThrottledClients(BoundedDict[tuple[str, str | None, str], _ThrottledResponses]):
    """The throttled responses by client and server."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "S036",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    only=FrameFlags.THROTTLED,
    needs=(InFlight,),
    limits=(TOTAL, WITHIN),
    since="0.1",
    blame="broker",
)
def throttled(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports clients that were throttled by a quota, and for how long in total.

    ## Why it matters
    A throttled client waits before its next request. It reports no error: it is only slow.

    ## Usual cause
    A quota for the client id or user (`producer_byte_rate`, `consumer_byte_rate`, `request_percentage`), or a default
    quota that nobody remembers. A client that sends many small requests exceeds `request_percentage`.

    ## Example
    ```story
    > Produce v7 {"acks": 1, "topic_data": []}
    < {"throttle_time_ms": 2500}
    +3s
    > Produce v7 {"acks": 1, "topic_data": []}
    < {"throttle_time_ms": 2600}
    ```

    ## Look-alikes
    A burst that is throttled once and briefly:
    ```story
    > Produce v7 {"acks": 1, "topic_data": []}
    < {"throttle_time_ms": 2500}
    +2m
    > Produce v7 {"acks": 1, "topic_data": []}
    < {"throttle_time_ms": 2600}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#design_quotas
    """
    response, run = connection.state(InFlight).answered, connection.run
    if response is None or not response.throttle_ms:
        return
    throttled_clients, client = run.state(_ThrottledClients), (*client_key(connection), connection.server)
    throttled_responses = throttled_clients.touch(client, _ThrottledResponses)
    if throttled_responses.count == 0 or event.at - throttled_responses.since > run.limit(WITHIN) * SECOND:
        throttled_responses.since, throttled_responses.count, throttled_responses.total_ms = event.at, 0, 0
    throttled_responses.count += 1
    throttled_responses.total_ms += response.throttle_ms
    if throttled_responses.total_ms >= run.limit(TOTAL) * 1000:
        del throttled_clients[client]
        yield Problem(
            f"{connection.server} throttled {client_label(connection)} in {throttled_responses.count} responses within"
            f" {duration(event.at - throttled_responses.since)}, for {duration(throttled_responses.total_ms * _MS)} in "
            "total",
            hint="raise the client's quota (kafka-configs --entity-type clients or users), or reduce its load",
            cause=str(client),
        )
