"""S008: Metadata keeps naming a leader that answers NOT_LEADER_OR_FOLLOWER."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.leaders import LeaderDenials
from dissectors.trackers.partitions import label
from dissectors.trackers.state import ConnectionState

#: Reported after this many denials, each after Metadata had named that server, over this time (ns).
ROUNDS = 3
MIN_DURATION = 5_000_000_000


@rule(
    "S008",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Metadata",),
    needs=(LeaderDenials,),
    since="0.1",
    blame="broker",
)
def stale_metadata_served(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that Metadata stops naming a leader that answers NOT_LEADER_OR_FOLLOWER.

    ## Why it matters
    The client behaves correctly: at each refusal it looks up the leader, but is sent back to the broker that just
    refused. The partition cannot be written or read until the brokers agree.

    ## Usual cause
    A broker that is disconnected from the controller and answers from old Metadata, or a server whose Metadata
    disagrees with its partitions. For a second or two after a failover, this is normal.

    ## Example
    ```story
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"leader_id": 1}]}]}
    > Produce v8 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6}]}]}
    +2s
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"leader_id": 1}]}]}
    > Produce v8 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6}]}]}
    +2s
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"leader_id": 1}]}]}
    > Produce v8 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6}]}]}
    +2s
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"leader_id": 1}]}]}
    ```

    ## Look-alikes
    A failover:
    ```story
    > Produce v8 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6}]}]}
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}, {"node_id": 2, "host": "10.0.0.2", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"leader_id": 1}]}]}
    > Produce v8 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{}]}]}
    < {"responses": [{"name": "t", "partition_responses": [{"error_code": 6}]}]}
    +6s
    > Metadata v8 {"topics": [{"name": "t"}]}
    < {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}, {"node_id": 2, "host": "10.0.0.2", "port": 9092}],
       "topics": [{"name": "t", "partitions": [{"leader_id": 2}]}]}
    ```

    ## Sources
    https://github.com/IBM/sarama/issues/595
    https://github.com/confluentinc/librdkafka/issues/1389
    """
    message = event.message
    denials = connection.run.state(LeaderDenials).for_response(event, connection)
    if not denials or message is None or message.diagnosis is not None:
        return
    for index, topic in enumerate(message.body["topics"] or ()):
        for row_index, partition in enumerate(topic["partitions"] or ()):
            for topic_key in (topic.get("name"), topic.get("topic_id")):
                topic_partition = (topic_key or "", partition["partition_index"])
                denial = denials.get(topic_partition)
                if denial is None or denial.rounds < ROUNDS or event.at - denial.since < MIN_DURATION:
                    continue
                partition_name = label(topic_partition, connection)
                yield Problem(
                    f"Metadata names broker {partition['leader_id']} as the leader of {partition_name}, which answered "
                    f"{denial.api} with NOT_LEADER_OR_FOLLOWER {denial.rounds} times in "
                    f"{(event.at - denial.since) / 1e9:.1f} s",
                    **locate(message, "topics", index, "partitions", row_index, "leader_id"),
                    hint=f"the broker {denial.server} names itself but refuses: check its log, and whether it is "
                    "connected to the controller"
                    if denial.server == connection.dialled
                    else f"check that {connection.dialled}, which names it, and {denial.server}, which refuses, both "
                    "are connected to the controller",
                    cause=partition_name,
                )
