"""S004: a leader that is not among the brokers of the same Metadata response."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule("S004", severity=Severity.ERROR, events=(ResponseReceived,), apis=("Metadata",), since="0.1", blame="broker")
def leader_not_in_brokers(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that a partition's leader is among the brokers of the same Metadata response.

    ## Why it matters
    Clients look up the leader's address in `brokers`. If it is missing there, the partition has no leader for them:
    they silently request Metadata again, forever.

    ## Usual cause
    A server with a fixed leader id, or one that uses different node ids for brokers and for leaders. Kafka sends
    LEADER_NOT_AVAILABLE and leader -1 while a leader is down.

    ## Example
    ```story
    > Metadata v9 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 5, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    ```

    ## Look-alikes
    ```story
    > Metadata v9 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 5, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"error_code": 5, "leader_id": -1, "replica_nodes": [1]}]}]}
    ```

    ## Sources
    https://github.com/seaweedfs/seaweedfs/pull/7329
    https://kafka.apache.org/protocol#The_Messages_Metadata
    """
    message = event.message
    if message is None or event.request_body is None or message.diagnosis is not None:
        return
    brokers = {broker["node_id"] for broker in message.body["brokers"] or ()}
    for index, topic in enumerate(message.body["topics"] or ()):
        for position, row in enumerate(topic["partitions"] or ()):
            leader = row["leader_id"]
            if leader >= 0 and leader not in brokers and row["error_code"] == 0:
                node_ids = ", ".join(map(str, sorted(brokers)[:10])) or "none"
                partition = f"partition {row['partition_index']} of topic {topic.get('name')!r}"
                yield Problem(
                    f"the Metadata response says that {partition} has leader {leader}, which is not among its brokers "
                    f"({node_ids})"
                    if brokers
                    else f"the Metadata response has an empty list of brokers, although {partition} has leader "
                    f"{leader}: the client has no address to connect to",
                    **locate(message, "topics", index, "partitions", position, "leader_id"),
                    hint="use the same node ids in brokers and as leaders; for a leader that is down, send "
                    "LEADER_NOT_AVAILABLE and -1"
                    if brokers
                    else "fix the broker: Metadata must list every broker that is alive, at least the one that answers",
                    expected=f"one of {node_ids}" if brokers else "a broker's node_id",
                    got=str(leader),
                    cause=str(leader),
                )
                return
