"""V018: UNSUPPORTED_VERSION in a response to an API other than ApiVersions."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import UNSUPPORTED_VERSION
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import API_VERSIONS, Versions

#: Brokers advertise these APIs but refuse them without a plugin, which is not their fault. S044 counts the refusals of
#: telemetry, and E001 explains the refusals of topology descriptions (KIP-1331).
SERVED_BY_PLUGINS = frozenset({"GetTelemetrySubscriptions", "PushTelemetry", "StreamsGroupTopologyDescriptionUpdate"})


@rule(
    "V018",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    only=FrameFlags.REFUSED,
    needs=(Versions,),
    since="0.1",
    blame="client",
)
def unsupported_version_elsewhere(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a server whose versions are unknown does not answer with UNSUPPORTED_VERSION.

    If the served versions are known, V001 or V002 blames the client for the request, or V007 the server for its
    refusal.

    ## Why it matters
    The whole request was refused, and will be refused again.

    ## Usual cause
    A client that never sends ApiVersions, or a feature that the cluster has not enabled (an old
    ``inter.broker.protocol.version``, the new group protocol).

    ## Example
    ```story
    > as old JoinGroup v5 {"group_id": "g", "group_instance_id": "i"}
    < {"error_code": 35}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    > ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 18, "max_version": 3}]}
    ```
    One of the requested groups has another type:
    ```story
    > ConsumerGroupDescribe v0 {"group_ids": ["classic"]}
    < {"groups": [{"group_id": "classic", "error_code": 35}]}
    ```

    ## Sources
    https://github.com/apache/kafka/pull/18291
    https://kafka.apache.org/protocol#protocol_error_codes
    """
    message = event.message
    if message is None or message.body.get("error_code") != UNSUPPORTED_VERSION or message.api_key == API_VERSIONS:
        return
    if event.request_body is None or message.api in SERVED_BY_PLUGINS:
        return
    if connection.state(Versions).ranges(connection) is None:
        yield Problem(
            f"{connection.server or 'the server'} answers {message.api} v{message.version} with UNSUPPORTED_VERSION",
            **locate(message, "error_code"),
            hint="make the client use ApiVersions and send served versions; otherwise check which feature is disabled",
        )
