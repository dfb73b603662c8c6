"""V012: a Produce version that Kafka 4 advertises but does not serve."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.schemas import removed_versions
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import Versions, range_text


@rule(
    "V012",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("Produce",),
    versions=range(3),
    needs=(Versions,),
    since="0.1",
    blame="broker",
)
def produce_min0_shim(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports that a client uses a Produce version that Kafka 4 advertises but does not serve.

    Kafka 4 advertises Produce from v0 on, because old librdkafka versions compress only if they see v0, but serves it
    from v3 on. kproxy recognizes such a server by its other ranges: they lack everything that Kafka 4 removed.

    ## Why it matters
    The client did nothing wrong: it sent an advertised version. The broker closes the connection, which
    V007 also reports if it repeats.

    ## Usual cause
    A producer that supports only the message formats from before Kafka 0.11.

    ## Example
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 0, "max_version": 13}, {"api_key": 1, "min_version": 4, "max_version": 18},
         {"api_key": 2, "min_version": 1, "max_version": 11}, {"api_key": 8, "min_version": 2, "max_version": 10},
         {"api_key": 18, "max_version": 4}]}
    > Produce v2 {"acks": 1}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 0, "max_version": 11}, {"api_key": 1, "max_version": 17},
         {"api_key": 2, "max_version": 9}, {"api_key": 8, "max_version": 9}, {"api_key": 18, "max_version": 4}]}
    > Produce v2 {"acks": 1}
    ```

    ## Sources
    https://github.com/apache/kafka/pull/18727
    https://github.com/kroxylicious/kroxylicious/pull/2851
    https://github.com/grepplabs/kafka-proxy/issues/221
    """
    key, version = event.message.api_key, event.message.version
    if not removed_versions.is_removed(key, version):
        return
    ranges = connection.state(Versions).ranges(connection)
    if ranges and removed_versions.is_advertised_only(key, version, ranges):
        yield Problem(
            f"{connection.server} advertises Produce {range_text(ranges[key])}, but its other ranges are those of"
            f" Kafka 4, which closes the connection on v{version}",
            6,
            8,
            "header.request_api_version",
            hint=f"upgrade the producer to one that sends Produce v{removed_versions.lowest_served()[key]} or later",
            expected=f"v{removed_versions.lowest_served()[key]} or later",
            got=f"v{version}",
        )
