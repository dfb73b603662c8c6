"""S007: a client that keeps sending requests to a broker that answers NOT_LEADER_OR_FOLLOWER."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import Message
from dissectors.rules import rule
from dissectors.trackers.leaders import NOT_LEADER, PARTITION_FIELDS, LeaderContradictions, LeaderDenials
from dissectors.trackers.partitions import label, refusals
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: Reported after this many consecutive refusals over this time (ns) without a Metadata request.
THRESHOLD = 5
MIN_DURATION = 2_000_000_000


@rule(
    "S007",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Produce", "Fetch"),
    only=FrameFlags.REFUSED,
    needs=(LeaderDenials,),
    since="0.1",
    blame="client",
)
def not_leader_no_refresh(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client refreshes Metadata after NOT_LEADER_OR_FOLLOWER before it retries the same broker.

    ## Why it matters
    The partition has moved. Until the client looks up the new leader, it can neither read nor write the partition, and
    the broker keeps refusing the same request.

    ## Usual cause
    A client that treats the error like any other retriable error, or refreshes its Metadata only on a timer.

    From Produce v10 and Fetch v12 on, the response can name the new leader (KIP-951), so the client needs no Metadata.
    A broker that refuses and names itself contradicts itself (S069).

    ## Example
    ```story
    > Fetch v4 {"topics": [{"topic": "orders", "partitions": [{"partition": 2}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"partition_index": 2, "error_code": 6}]}]}
    +1s
    > Fetch v4 {"topics": [{"topic": "orders", "partitions": [{"partition": 2}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"partition_index": 2, "error_code": 6}]}]}
    +1s
    > Fetch v4 {"topics": [{"topic": "orders", "partitions": [{"partition": 2}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"partition_index": 2, "error_code": 6}]}]}
    +1s
    > Fetch v4 {"topics": [{"topic": "orders", "partitions": [{"partition": 2}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"partition_index": 2, "error_code": 6}]}]}
    +1s
    > Fetch v4 {"topics": [{"topic": "orders", "partitions": [{"partition": 2}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"partition_index": 2, "error_code": 6}]}]}
    ```

    ## Look-alikes
    The client requests Metadata and switches to the new leader:
    ```story
    > Fetch v4 {"topics": [{"topic": "orders", "partitions": [{"partition": 2}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"partition_index": 2, "error_code": 6}]}]}
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}, {"node_id": 2, "host": "10.0.0.2", "port": 9092}],
       "topics": [{"name": "orders", "partitions": [{"partition_index": 2, "leader_id": 2}]}]}
    open 2 client=10.0.0.101:50009 server=10.0.0.2:9092
    2> Fetch v4 {"topics": [{"topic": "orders", "partitions": [{"partition": 2}]}]}
    2< {"responses": [{"topic": "orders", "partitions": [{"partition_index": 2}]}]}
    ```

    ## Sources
    https://github.com/IBM/sarama/issues/2760
    https://github.com/confluentinc/librdkafka/issues/4976
    https://github.com/platformatic/kafka/issues/377
    """
    message = event.message
    leader_denials = connection.run.state(LeaderDenials)
    denials = leader_denials.for_response(event, connection)
    if not denials or message is None:
        return
    for topic_partition, code, path in refusals(message.body, *PARTITION_FIELDS[message.api]):
        denial = denials.get(topic_partition) if code == NOT_LEADER else None
        if connection.run.state(LeaderContradictions).contains(connection.server, topic_partition, event.at):
            continue  # S069: the server contradicts itself
        if (
            denial is not None
            and denial.consecutive >= THRESHOLD
            and event.at - denial.consecutive_since >= MIN_DURATION
        ):
            name = label(topic_partition, connection)
            text = (
                f"{connection.dialled} answered {message.api} with NOT_LEADER_OR_FOLLOWER for {name} "
                f"{denial.consecutive} times in {(event.at - denial.consecutive_since) / 1e9:.1f} s"
            )
            leader = _named_leader(message, path)
            leader_note = f" {leader}, which each response names" if leader >= 0 else ""
            yield Problem(
                f"{text}, but the client did not look up the new leader{leader_note}",
                **locate(message, *path),
                hint="the client must request Metadata after this error, and send the next request to the leader "
                "that it names",
                cause=name,
            )


def _named_leader(message: Message, path: tuple[str | int, ...]) -> int:
    """Return the leader that a response names for the partition with this error code, or -1 if it names none."""
    row: Any = message.body
    for step in path[:-1]:
        row = row[step]
    leader = (row.get("current_leader") or {}).get("leader_id", -1)
    return leader if isinstance(leader, int) else -1
