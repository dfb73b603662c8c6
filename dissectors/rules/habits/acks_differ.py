"""H002: a producer with acks=1 for a topic that others write with acks=all."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.topic_records import topic_records
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.produce_habits import ACKS_1, ProduceHabits
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.trackers.versions import client_key

_MAX_TOPICS = 10_000
_ALL = -1


class _Topics:
    """The last client that wrote each topic with acks=all, by topic name."""

    def __init__(self) -> None:
        self.safe_clients: BoundedDict[str, tuple[str, str | None]] = BoundedDict(_MAX_TOPICS)


@rule(
    "H002",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    also=(Trigger((RequestReceived,), ("Produce",), only=FrameFlags.FIRST),),
    needs=(ProduceHabits,),
    limits=(ACKS_1,),
    since="0.1",
    blame="client",
)
def acks_differ(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports producers with acks=1 for topics that other clients write with acks=all.

    ## Why it matters
    With acks=1, the leader acknowledges a record before any other broker has it: if the leader fails at that moment,
    the record is lost although its producer got an offset. Consumers of the topic cannot tell which records are safe.

    ## Usual cause
    An old default: acks=1 was the default of Java producers before Kafka 3.0, and still is in several other libraries.

    ## Example
    ```story
    rule H002:requests=2
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": []}]}
    < {"responses": []}
    2> as old Produce v9 {"acks": 1, "topic_data": [{"name": "t", "partition_data": []}]}
    2< {"responses": []}
    2> as old Produce v9 {"acks": 1, "topic_data": [{"name": "t", "partition_data": []}]}
    2< {"responses": []}
    ```

    ## Look-alikes
    A topic that all its producers write with acks=1:
    ```story
    rule H002:requests=2
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": []}]}
    < {"responses": []}
    2> as old Produce v9 {"acks": 1, "topic_data": [{"name": "metrics", "partition_data": []}]}
    2< {"responses": []}
    2> as old Produce v9 {"acks": 1, "topic_data": [{"name": "metrics", "partition_data": []}]}
    2< {"responses": []}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_acks
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-679%3A+Producer+will+enable+the+strongest+delivery+guarantee+by+default
    """
    acks, habits = event.message.body.get("acks"), connection.state(ProduceHabits)
    topics, client, run = connection.run.state(_Topics), client_key(connection), connection.run
    for topic in topic_records(event.message):
        name = run.topic_names.get(topic.key, topic.key)
        if acks == _ALL:
            topics.safe_clients[name] = client
        elif (
            acks == 1
            and habits.sent == run.limit(ACKS_1)
            and (safe_client := topics.safe_clients.get(name))
            and safe_client != client
        ):
            yield Problem(
                f"{client_label(connection)} sent {habits.sent} Produce requests with acks=1, to topic {name!r} among "
                f"others, which client {safe_client[1]!r} at {safe_client[0]} writes with acks=all",
                hint="set acks=all (with min.insync.replicas=2 on the topic), as the others do",
                cause=name,
            )
