"""V008: brokers of one cluster that advertise different versions."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.message import api_name
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import Ranges, Versions, range_text


class _ReferenceBrokers:
    """For each cluster id, the broker with which other brokers are compared, and its version ranges."""

    def __init__(self) -> None:
        self.by_cluster: BoundedDict[str, tuple[str, Ranges]] = BoundedDict(1_000)


@rule(
    "V008",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("ApiVersions", "Metadata"),
    needs=(Versions,),
    since="0.1",
)
def brokers_disagree(_: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports that two brokers of one cluster advertise different versions.

    Brokers belong to the same cluster if their Metadata responses have the same cluster id.

    ## Why it matters
    A client that asks one broker and talks to another sends versions that are not served there. What works then
    depends on which broker is the leader.

    ## Usual cause
    A rolling upgrade that is in progress or was never finished, or a broker with an older configuration.

    ## Example
    ```story
    open 1 server=10.0.0.1:9092
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "max_version": 13}, {"api_key": 3, "max_version": 12}]}
    > Metadata v9 {}
    < {"cluster_id": "c"}
    open 2 server=10.0.0.2:9092
    2> ApiVersions v0 {}
    2< {"api_keys": [{"api_key": 1, "max_version": 17}, {"api_key": 3, "max_version": 12}]}
    2> Metadata v9 {}
    2< {"cluster_id": "c"}
    ```

    ## Look-alikes
    Two clusters in one run:
    ```story
    open 1 server=10.0.0.1:9092
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "max_version": 13}, {"api_key": 3, "max_version": 12}]}
    > Metadata v9 {}
    < {"cluster_id": "c"}
    open 2 server=10.0.0.2:9092
    2> ApiVersions v0 {}
    2< {"api_keys": [{"api_key": 1, "max_version": 17}, {"api_key": 3, "max_version": 12}]}
    2> Metadata v9 {}
    2< {"cluster_id": "d"}
    ```
    One broker that was upgraded:
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 1, "max_version": 13}, {"api_key": 3, "max_version": 12}]}
    > Metadata v9 {}
    < {"cluster_id": "c"}
    2> ApiVersions v0 {}
    2< {"api_keys": [{"api_key": 1, "max_version": 17}, {"api_key": 3, "max_version": 12}]}
    2> Metadata v9 {}
    2< {"cluster_id": "c"}
    ```

    ## Sources
    https://github.com/confluentinc/librdkafka/issues/4806
    https://kafka.apache.org/protocol#api_versions
    """
    server = connection.state(Versions).server(connection)
    if server.ranges is None or server.cluster_id is None:
        return
    references = connection.run.state(_ReferenceBrokers).by_cluster
    reference, ranges = references.touch(server.cluster_id, lambda: (connection.server, {}))
    if reference == connection.server:
        references[server.cluster_id] = (reference, server.ranges)
    elif ranges != server.ranges:
        keys = [key for key in sorted(ranges.keys() | server.ranges) if ranges.get(key) != server.ranges.get(key)]
        first_key, others_text = keys[0], f" and {len(keys) - 1} other APIs" if len(keys) > 1 else ""
        yield Problem(
            f"{connection.server} advertises {_range_text(first_key, server.ranges)} and {reference} of the same "
            f"cluster {_range_text(first_key, ranges)}; they differ in {api_name(first_key)}{others_text}",
            hint="finish the upgrade, so that all brokers of the cluster run the same release",
            cause=reference,
        )


def _range_text(key: int, ranges: Ranges) -> str:
    return f"{api_name(key)} {range_text(ranges[key])}" if key in ranges else f"no {api_name(key)}"
