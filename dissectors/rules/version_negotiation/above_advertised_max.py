"""V001: a version above the server's highest."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import schemas
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import API_VERSIONS, SASL_HANDSHAKE, Versions, range_text


@rule(
    "V001",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    broken=True,
    only=FrameFlags.FIRST,
    needs=(Versions,),
    since="0.1",
    blame="client",
)
def above_advertised_max(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a request's version is not above the highest version that the server advertises.

    The ApiVersions response of this connection counts. A client that asked on another connection and cached the answer
    is checked against that one, if the server has never advertised anything else. An API that the server does not list
    has no served version.

    ## Why it matters
    Kafka closes the connection without a response. Other servers answer UNSUPPORTED_VERSION, or misread the fields.

    ## Usual cause
    A client that uses its own highest version, or ranges from another broker. A proxy that passes on ranges other than
    those of its upstream.

    ## Example
    ```story
    > ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 1, "min_version": 4, "max_version": 11}, {"api_key": 18, "max_version": 3}]}
    > Fetch v12 {}
    ```
    ```story
    > ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 3}]}
    > DescribeCluster v0 {}
    ```

    ## Look-alikes
    The highest version itself; and ApiVersions, which a client may send in any version to learn the others:
    ```story
    > ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    > ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 1, "min_version": 4, "max_version": 12}, {"api_key": 18, "max_version": 3}]}
    > Fetch v12 {}
    ```
    A server whose ranges are uncertain because it was upgraded in between:
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 3}]}
    2> ApiVersions v0 {}
    2< {"api_keys": [{"api_key": 3, "max_version": 12}, {"api_key": 18, "max_version": 4}]}
    3> Metadata v13 {}
    ```

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/4887
    https://github.com/confluentinc/librdkafka/issues/4870
    https://kafka.apache.org/protocol#api_versions
    """
    message = event.message
    ranges = connection.state(Versions).ranges(connection)
    if ranges is None or message.api_key in (API_VERSIONS, SASL_HANDSHAKE):
        return
    served = ranges.get(message.api_key)
    if served is None:
        if schemas.api(message.api_key) is not None:
            yield Problem(
                f"{message.api} is sent to {connection.server}, which does not advertise that API",
                4,
                6,
                "header.request_api_key",
                hint="the server lacks this API or has it disabled: check which APIs its ApiVersions response lists",
                got=f"{message.api} v{message.version}",
            )
    elif message.version > served[1]:
        yield Problem(
            f"{message.api} v{message.version} is above v{served[1]}, the highest that {connection.server} serves",
            6,
            8,
            "header.request_api_version",
            hint=f"send at most v{served[1]}, or upgrade the server",
            expected=range_text(served),
            got=f"v{message.version}",
        )
