"""S100: client metrics that are larger than the broker told the client."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger

_MAX_CLIENTS = 10_000


class _Limits(BoundedDict[str, int]):
    """The telemetry_max_bytes that each client instance got last."""

    def __init__(self) -> None:
        super().__init__(_MAX_CLIENTS)


@rule(
    "S100",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("PushTelemetry",),
    also=(Trigger((ResponseReceived,), ("GetTelemetrySubscriptions",)),),
    since="0.1",
    blame="client",
)
def telemetry_above_the_limit(
    event: RequestReceived | ResponseReceived, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that the metrics in PushTelemetry are not larger than telemetry_max_bytes of the subscription.

    ## Why it matters
    The broker refuses the request with TELEMETRY_TOO_LARGE, and the metrics are lost.

    ## Usual cause
    A client that collects the metrics of many partitions and does not limit what it sends, or that does not compress
    although the broker accepts codecs.

    ## Example
    ```story
    > GetTelemetrySubscriptions v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw"}
    < {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 7, "telemetry_max_bytes": 4}
    > PushTelemetry v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 7,
      "metrics": "00 01 02 03 04"}
    ```

    ## Look-alikes
    ```story
    > GetTelemetrySubscriptions v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw"}
    < {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 7, "telemetry_max_bytes": 4}
    > PushTelemetry v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAABw", "subscription_id": 7, "metrics": "00 01 02 03"}
    2> PushTelemetry v0 {"client_instance_id": "AAAAAAAAAAAAAAAAAAAACA", "metrics": "00 01 02 03 04"}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-714%3A+Client+metrics+and+observability
    https://github.com/apache/kafka/pull/23452
    """
    limits, message = connection.run.state(_Limits), event.message
    if message is None or message.diagnosis is not None or not message.well_formed:
        return
    body = message.body
    instance = str(body.get("client_instance_id", ""))
    if isinstance(event, ResponseReceived):
        if not body.get("error_code"):
            limits[instance] = body.get("telemetry_max_bytes", 0)
        return
    limit, size = limits.get(instance, 0), len(body.get("metrics") or b"")
    if limit > 0 and size > limit:
        uncompressed_text = ", and are not compressed" if not body.get("compression_type") else ""
        yield Problem(
            f"the metrics of client instance {instance} have {size} bytes{uncompressed_text}, but"
            f" GetTelemetrySubscriptions gave it telemetry_max_bytes {limit}: the broker refuses them",
            **locate(message, "metrics"),
            hint="fix the client: it must compress its metrics or leave some out; or subscribe to fewer metrics"
            " (kafka-configs --entity-type client-metrics), or raise telemetry.max.bytes",
            expected=f"at most {limit} bytes",
            got=f"{size} bytes",
            cause=instance,
        )
