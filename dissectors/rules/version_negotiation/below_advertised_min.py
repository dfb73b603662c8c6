"""V002: a version below the server's lowest."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.schemas import removed_versions
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import API_VERSIONS, SASL_HANDSHAKE, Versions, range_text


@rule(
    "V002",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    broken=True,
    only=FrameFlags.FIRST,
    needs=(Versions,),
    since="0.1",
    blame="client",
)
def below_advertised_min(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a request's version is not below the lowest version that the server advertises.

    The ApiVersions response of this connection counts. A client that never sends ApiVersions is checked
    against the ranges that other clients got, if the server has never advertised anything else.

    ## Why it matters
    Kafka closes the connection without a response. The client reconnects, sends the same request again, and hangs.

    ## Usual cause
    An old client, or one pinned to an old version, with Kafka 4.0 or later, which removed the versions from before 2.1
    (KIP-896).

    ## Example
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "min_version": 4, "max_version": 17}, {"api_key": 18, "max_version": 4}]}
    > Fetch v2 {}
    ```
    Another client never sends ApiVersions; the ranges that the first one got apply to it too:
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 8, "min_version": 2, "max_version": 9}, {"api_key": 18, "max_version": 4}]}
    2> as old OffsetCommit v1 {"group_id": "g"}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "min_version": 4, "max_version": 17}, {"api_key": 18, "max_version": 4}]}
    > Fetch v4 {}
    ```
    The ranges of this server are unknown; V011 reports that Kafka 4 would refuse the request:
    ```story
    > Fetch v2 {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-896%3A+Remove+old+client+protocol+API+versions+in+Kafka+4.0
    https://github.com/segmentio/kafka-go/issues/1378
    https://github.com/netscaler/netscaler-observability-exporter/issues/78
    https://github.com/Mongey/terraform-provider-kafka/issues/545
    """
    message = event.message
    ranges = connection.state(Versions).ranges(connection)
    if ranges is None or message.api_key in (API_VERSIONS, SASL_HANDSHAKE):
        return
    served = ranges.get(message.api_key)
    if served is not None and message.version < served[0]:
        hint = "upgrade the client, or remove the setting that pins its version"
        if removed_versions.is_removed(message.api_key, message.version):
            hint += "; Kafka 4.0 removed the versions from before 2.1 (KIP-896)"
        yield Problem(
            f"{message.api} v{message.version} is below v{served[0]}, the lowest that {connection.server} serves",
            6,
            8,
            "header.request_api_version",
            hint=hint,
            expected=range_text(served),
            got=f"v{message.version}",
        )
