"""S094: client metrics that are pushed with an old subscription id."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger

_MAX_CLIENTS = 10_000


class _Subscriptions:
    """The subscription id that each client instance got last, and when (ns)."""

    def __init__(self) -> None:
        self.by_instance: BoundedDict[str, tuple[int, int]] = BoundedDict(_MAX_CLIENTS)


@rule(
    "S094",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("PushTelemetry",),
    also=(Trigger((ResponseReceived,), ("GetTelemetrySubscriptions",)),),
    since="0.1",
    blame="client",
)
def old_telemetry_subscription(
    event: RequestReceived | ResponseReceived, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that PushTelemetry has the subscription id of the latest GetTelemetrySubscriptions response.

    ## Why it matters
    The id changes with the subscribed metrics. A broker refuses an old one with UNKNOWN_SUBSCRIPTION_ID: the metrics of
    this client are lost, although it keeps sending them.

    ## Usual cause
    A client that keeps the first id, or asks for the subscription after a refusal but does not use the response.

    ## Example
    ```story
    > GetTelemetrySubscriptions v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw"}
    < {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 11}
    > PushTelemetry v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 11}
    < {"error_code": 117}
    > GetTelemetrySubscriptions v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw"}
    < {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 12}
    > PushTelemetry v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 11}
    < {"error_code": 117}
    ```

    ## Look-alikes
    The subscription changes, and the client asks for the new one; another client has an older subscription:
    ```story
    > GetTelemetrySubscriptions v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw"}
    < {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 11}
    > PushTelemetry v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 11}
    < {"error_code": 117}
    > GetTelemetrySubscriptions v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw"}
    < {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 12}
    > PushTelemetry v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 12}
    < {}
    2> PushTelemetry v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAACA", "subscription_id": 11}
    2< {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-714%3A+Client+metrics+and+observability
    """
    subscriptions, message = connection.run.state(_Subscriptions).by_instance, event.message
    if message is None or message.diagnosis is not None or not message.well_formed:
        return
    body = message.body
    instance = str(body.get("client_instance_id", ""))
    if isinstance(event, ResponseReceived):
        if not body.get("error_code"):
            subscriptions[instance] = body.get("subscription_id", 0), event.at
        return
    newest, granted_at = subscriptions.get(instance, (body.get("subscription_id"), event.at))
    if body.get("subscription_id") != newest:
        yield Problem(
            f"PushTelemetry of client instance {instance} has subscription_id {body.get('subscription_id')}, although "
            f"GetTelemetrySubscriptions gave it {newest} {duration(event.at - granted_at)} before: the broker refuses "
            "the old one with UNKNOWN_SUBSCRIPTION_ID, and the metrics are lost",
            **locate(message, "subscription_id"),
            hint="fix or upgrade the client: it must use the subscription_id of the latest response",
            expected=str(newest),
            got=str(body.get("subscription_id")),
            cause=instance,
        )
