"""S068: FindCoordinator and Metadata disagree about a broker."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.cluster_views import ClusterViews, broker_text
from dissectors.trackers.state import ConnectionState


@rule(
    "S068",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("FindCoordinator", "Metadata"),
    needs=(ClusterViews,),
    since="0.1",
    blame="broker",
)
def coordinator_contradicts_metadata(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that FindCoordinator and Metadata of a server give a broker the same node id and address.

    ## Why it matters
    Clients index brokers by node id. They look up the coordinator's id in Metadata, do not find it or find a different
    address, and request Metadata and the coordinator again, in a loop.

    ## Usual cause
    A gateway or a small implementation that fills in the two responses in different places: it numbers the brokers from
    0 in one and from 1 in the other, or advertises its own address only in one. A coordinator that Metadata does not
    name at all is reported after three responses, because a broker may just have stopped.

    ## Example
    ```story
    > Metadata v9 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 0, "host": "10.0.0.1", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    > FindCoordinator v3 {"key": "g"}
    < {"node_id": 1, "host": "10.0.0.1", "port": 9092}
    ```
    ```story
    > FindCoordinator v4 {"coordinator_keys": ["g"]}
    < {"coordinators": [{"key": "g", "node_id": 1, "host": "10.0.0.1", "port": 9092}]}
    > Metadata v9 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.9.9.9", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    ```
    ```story
    > Metadata v9 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 0, "host": "10.0.0.1", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
    > FindCoordinator v3 {"key": "g"}
    < {"node_id": 7, "host": "10.0.0.7", "port": 9092}
    > FindCoordinator v3 {"key": "g"}
    < {"node_id": 7, "host": "10.0.0.7", "port": 9092}
    > FindCoordinator v3 {"key": "g"}
    < {"node_id": 7, "host": "10.0.0.7", "port": 9092}
    ```

    ## Look-alikes
    Several brokers behind one address, and a broker that started between the two responses:
    ```story
    > Metadata v9 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 0, "host": "10.0.0.1", "port": 9092}, {"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{}]}]}
    > FindCoordinator v3 {"key": "g"}
    < {"node_id": 1, "host": "10.0.0.1", "port": 9092}
    > FindCoordinator v3 {"key": "g"}
    < {"node_id": 2, "host": "10.0.0.2", "port": 9092}
    > Metadata v9 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}, {"node_id": 2, "host": "10.0.0.2", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{}]}]}
    ```

    ## Sources
    https://github.com/KafScale/platform/issues/69
    https://kafka.apache.org/protocol#The_Messages_FindCoordinator
    """
    message, conflict = event.message, connection.run.state(ClusterViews).conflict
    if message is None or conflict is None:
        return
    coordinator, broker = conflict.coordinator, conflict.broker
    if broker is None:
        metadata_text = "Metadata of the same server has neither that node id nor that address"
    elif broker.node_id == coordinator.node_id:
        metadata_text = f"Metadata of the same server has node {broker.node_id} at {broker.address}"
    else:
        metadata_text = f"Metadata of the same server calls that address node {broker.node_id}"
        metadata_text += f", and has no node {coordinator.node_id}"
    path = coordinator.path if message.api == "FindCoordinator" else ("brokers",)
    yield Problem(
        f"FindCoordinator names {broker_text(coordinator)} as the coordinator of {conflict.subject}, but "
        f"{metadata_text}",
        **locate(message, *path),
        hint="fix the server: a broker needs the same node id and address in Metadata and in FindCoordinator; "
        "clients look up the coordinator's id in Metadata",
        once_per=(connection.server, coordinator.node_id, coordinator.address),
    )
