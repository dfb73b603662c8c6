"""S069: a refusal whose current leader does not match its node endpoints, or is the server that refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.cluster_views import ClusterViews
from dissectors.trackers.leaders import LeaderContradictions
from dissectors.trackers.partitions import label, topic_name_or_id
from dissectors.trackers.recurrence import Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: A server that names itself is reported after this many refusals: the first ones may come while it becomes the leader.
THRESHOLD = 3

_NOT_LEADER = Error.NOT_LEADER_OR_FOLLOWER


class _SelfReferences(Recurrence):
    """Refusals of a server that names itself as the leader, per partition."""

    within = 10_000_000_000


@rule(
    "S069",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Produce", "Fetch", "ShareFetch", "ShareAcknowledge"),
    only=FrameFlags.REFUSED,
    needs=(ClusterViews,),
    since="0.1",
    blame="broker",
)
def leader_hint_contradicts(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a broker that is not the leader names another broker as the leader, with its endpoint.

    ## Why it matters
    Since KIP-951, clients take the new leader from the refusal instead of requesting Metadata: current_leader has its
    node id, node_endpoints its address. If they do not match, the client retries at a broker that refuses it again.

    ## Usual cause
    A proxy or gateway that rewrites one of the two fields, e.g. names the broker of the client's zone in node_endpoints
    and leaves current_leader as it is. Or a broker whose metadata disagrees with its replicas: it names itself as the
    leader in the very response in which it denies being the leader. This is reported after three refusals.

    ## Example
    The leader is node 1, and the only endpoint is that of node 3:
    ```story
    > Produce v11 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [{"records": [{}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6, "base_offset": -1,
       "current_leader": {"leader_id": 1, "leader_epoch": 6}}]}],
       "node_endpoints": [{"node_id": 3, "host": "10.0.0.3", "port": 9092}]}
    ```

    ## Look-alikes
    ```story
    > Produce v11 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"records": [{"records": [{}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6, "base_offset": -1,
       "current_leader": {"leader_id": 3, "leader_epoch": 7}}]}],
       "node_endpoints": [{"node_id": 3, "host": "10.0.0.3", "port": 9092}]}
    ```
    The leader of one of two partitions has just stopped, and has no endpoint:
    ```story
    > Produce v11 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
       {"index": 0, "records": [{"records": [{}]}]}, {"index": 1, "records": [{"records": [{}]}]}]}]}
    < {"responses": [{"name": "t", "partition_responses": [
       {"index": 0, "error_code": 6, "base_offset": -1, "current_leader": {"leader_id": 3, "leader_epoch": 7}},
       {"index": 1, "error_code": 6, "base_offset": -1, "current_leader": {"leader_id": 2, "leader_epoch": 4}}]}],
       "node_endpoints": [{"node_id": 3, "host": "10.0.0.3", "port": 9092}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-951%3A+Leader+discovery+optimisations+for+the+client
    https://github.com/AutoMQ/automq/issues/3546
    """
    message = event.message
    if message is None:
        return
    endpoint_ids = [endpoint["node_id"] for endpoint in message.body.get("node_endpoints") or ()]
    rows = list(_refused_partitions(message.body))
    leaders = {leader for _, _, leader in rows}
    unrelated_ids = [node_id for node_id in endpoint_ids if node_id not in leaders]
    for topic_partition, path, leader in rows:
        has_no_endpoint = bool(unrelated_ids) and leader not in endpoint_ids
        names_itself = leader == connection.run.state(ClusterViews).node_id(connection.server, connection.server)
        if names_itself and not has_no_endpoint:
            times = connection.run.state(_SelfReferences).count((connection.server, topic_partition), event.at)
            if times < THRESHOLD:
                continue
        elif not has_no_endpoint:
            continue
        connection.run.state(LeaderContradictions).add(connection.server, topic_partition, event.at)
        name = label(topic_partition, connection)
        text = f"current_leader of {name} is {leader}"
        if has_no_endpoint:
            text += f", but node_endpoints has only node {', '.join(map(str, endpoint_ids[:5]))}"
        if names_itself:
            text += f"{', and' if has_no_endpoint else ', but'} node {leader} itself answered NOT_LEADER_OR_FOLLOWER"
        yield Problem(
            f"{text}: {connection.server} contradicts itself",
            **locate(message, *path, "current_leader", "leader_id"),
            hint="fix the server or proxy: current_leader must be the leader's node id, and node_endpoints must have "
            "the endpoint with that id",
            cause=name,
        )


def _refused_partitions(body: dict[str, Any]) -> Iterator[tuple[tuple[str, int], tuple[str | int, ...], int]]:
    """Yield each partition that the server refuses because it is not the leader, its path, and the leader it names."""
    for i, topic in enumerate(body.get("responses") or ()):
        for field in ("partition_responses", "partitions"):
            for j, row in enumerate(topic.get(field) or ()):
                leader = (row.get("current_leader") or {}).get("leader_id", -1)
                if row.get("error_code") == _NOT_LEADER and leader >= 0:
                    topic_partition = topic_name_or_id(topic), row.get("index", row.get("partition_index", 0))
                    yield topic_partition, ("responses", i, field, j), leader
