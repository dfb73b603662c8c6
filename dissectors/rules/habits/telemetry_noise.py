"""S044: a client whose telemetry the broker refuses."""

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
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import client_key

RESPONSES = Limit("responses", 3, "responses", "a server refuses the telemetry of a client so often", 2)

_MAX_CLIENTS = 10_000


class _RefusedRequests(BoundedDict[tuple[str, str | None, str, str], int]):
    """Refused requests by client, server and API."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "S044",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("GetTelemetrySubscriptions", "PushTelemetry"),
    only=FrameFlags.REFUSED,
    limits=(RESPONSES,),
    since="0.1",
    blame="client",
)
def telemetry_noise(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports clients that repeatedly offer telemetry to brokers that refuse it.

    ## Why it matters
    The requests cost little, but they fill logs, and metrics that somebody expects are missing.

    ## Usual cause
    `enable.metrics.push` is on by default in clients since Kafka 3.7, and the broker has no receiver, or a quota or
    size limit (`telemetry.max.bytes`) stops the telemetry. A client learns of this from its first refusal.

    ## Example
    ```story
    > GetTelemetrySubscriptions v0 {}
    < {"error_code": 42}
    > GetTelemetrySubscriptions v0 {}
    < {"error_code": 42}
    > GetTelemetrySubscriptions v0 {}
    < {"error_code": 42}
    ```

    ## Look-alikes
    ```story
    > GetTelemetrySubscriptions v0 {}
    < {"error_code": 42}
    > GetTelemetrySubscriptions v0 {}
    < {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-714%3A+Client+metrics+and+observability
    """
    message = event.message
    if message is None:
        return
    code = next((error.code for error in errors(message)), 0)
    refusals, key = connection.run.state(_RefusedRequests), (*client_key(connection), connection.server, message.api)
    refusals[key] = count = refusals.get(key, 0) + 1
    if count >= connection.run.limit(RESPONSES):
        del refusals[key]
        yield Problem(
            f"{client_label(connection)} sent {message.api} to {connection.server}, which refused it {count} times"
            f" ({schemas.error_name(code) or code})",
            hint="set enable.metrics.push=false in the client, or configure a metrics reporter and subscription on the"
            " broker",
            cause=f"{message.api} {code}",
        )
