"""S050: a client that retries without a pause."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import schemas
from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.summary import errors
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

RETRIES = Limit("retries", 20, "requests", "so many requests of an API in a row fail with the same retriable error", 2)
PAUSE = Limit("pause", 0.01, "s", "each is sent less than this after the error before", 0.001)
WITHIN = Limit("within", 2, "s", "and all within this time", 0.01)

_MAX_APIS = 100


class _FailureStreak:
    """Consecutive failures of an API with the same error code."""

    def __init__(self) -> None:
        self.code = self.count = self.since = self.last_at = 0


class _FailureStreaks(BoundedDict[str, _FailureStreak]):
    """The failures of a connection, by API."""

    def __init__(self) -> None:
        super().__init__(_MAX_APIS)


@rule(
    "S050",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    only=FrameFlags.REFUSED,
    limits=(RETRIES, PAUSE, WITHIN),
    since="0.1",
    blame="client",
)
def retry_storm(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that clients wait before they retry a request that failed with a retriable error.

    ## Why it matters
    A retriable error means "later". Retries without a pause load a broker that already has a problem, and use up the
    client's retry limit within milliseconds.

    ## Usual cause
    `retry.backoff.ms=0`, or a loop in the program around a client call.

    ## Example
    ```story
    rule S050:retries=3
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15}
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15}
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15}
    ```

    ## Look-alikes
    Kafka's own clients pause for 100 ms, and for 20 ms after CONCURRENT_TRANSACTIONS:
    ```story
    rule S050:retries=3
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15}
    +20ms
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15}
    +20ms
    > FindCoordinator v2 {"key": "g"}
    < {"error_code": 15}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_retry.backoff.ms
    """
    request, message = event.request, event.message
    if request is None or message is None or event.damaged:
        return
    code = next((error.code for error in errors(message)), 0)
    error = schemas.error(code) if code else None
    if error is None or not error.retriable:
        return
    run, streak = connection.run, connection.state(_FailureStreaks).touch(message.api, _FailureStreak)
    is_immediate_retry = streak.code == code and 0 <= request.at - streak.last_at < run.limit(PAUSE) * SECOND
    if not is_immediate_retry or event.at - streak.since > run.limit(WITHIN) * SECOND:
        streak.code, streak.count, streak.since = code, 0, request.at
    streak.count += 1
    streak.last_at = event.at
    if streak.count >= run.limit(RETRIES):
        count, streak.count, streak.code = streak.count, 0, 0
        yield Problem(
            f"{client_label(connection)} sent {count} {message.api} requests within "
            f"{duration(event.at - streak.since)}, each"
            f" immediately after {error.name} to the one before",
            hint="make the client wait before it retries (retry.backoff.ms), and longer each time",
            cause=f"{message.api} {error.name}",
        )
