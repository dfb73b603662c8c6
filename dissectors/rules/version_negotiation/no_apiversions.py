"""V003: a client that does not send ApiVersions."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import Servers, Versions, client_key


@rule(
    "V003",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("Metadata",),
    needs=(Servers, Versions),
    since="0.1",
    blame="client",
)
def no_apiversions(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a client sends requests without negotiating versions first (ApiVersions).

    The severity is info: with a broker that still serves those versions, nothing is wrong. If the server has
    advertised to others that it does not serve them, V001 and V002 report an error. Only clients that request Metadata
    are checked, as every client must; brokers talk to each other without ApiVersions.

    ## Why it matters
    The client sends fixed versions. When the broker stops serving one, it closes the connection, and the client cannot
    learn why: Kafka 4.0 does this to every client that uses the versions of Kafka 0.10 or earlier.

    ## Usual cause
    A client older than Kafka 0.10, or one configured with the broker's version (``api.version.request=false``,
    ``broker.version.fallback``, ``api_version=(0, 9)``).

    ## Example
    ```story
    > as rdkafka Metadata v0 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 18, "max_version": 3}]}
    > Metadata v1 {}
    < {}
    ```
    A client that sent ApiVersions on another connection:
    ```story
    open 1 client=10.0.0.7:50001
    open 2 client=10.0.0.7:50002
    > as kafkajs ApiVersions v2 {}
    2> as kafkajs Metadata v6 {}
    2< {}
    ```
    A client that sends ApiVersions later:
    ```story
    > Metadata v1 {}
    > ApiVersions v0 {}
    < {}
    ```
    The start of the connection is not in the capture:
    ```story
    open 1 midstream
    > Metadata v1 {}
    < {}
    ```

    ## Sources
    https://github.com/apache/kafka/pull/18291
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-35+-+Retrieving+protocol+version
    """
    versions = connection.state(Versions)
    message = event.message
    if (
        message is None
        or versions.requested
        or connection.midstream
        or not versions.is_complete
        or not connection.client
    ):
        return
    client = client_key(connection)
    if client not in connection.run.state(Servers).version_clients:
        host, name = client
        yield Problem(
            f"client {name!r} at {host} sends Metadata v{message.version}"
            f" to {connection.server} without ApiVersions first",
            hint="make the client send ApiVersions first: upgrade it, or remove the setting that pins its version",
            cause=host,
        )
