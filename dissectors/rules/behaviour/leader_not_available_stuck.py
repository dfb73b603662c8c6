"""S006: a partition that has no leader for 8 seconds or more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import Message
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.partitions import TopicPartition, label, topic_name_or_id
from dissectors.trackers.state import ConnectionState

LEADER_NOT_AVAILABLE = Error.LEADER_NOT_AVAILABLE

#: An outage is reported after this time (ns) and this many responses. If no response reports it for `RESET_AFTER` (ns),
#: counting restarts.
MAX_DURATION = 8 * 1_000_000_000
MIN_RESPONSES = 3
RESET_AFTER = 30 * 1_000_000_000

MAX_LEADERLESS = 10_000


@dataclass(slots=True)
class _Outage:
    first_at: int
    last_at: int
    responses: int = 1


class _LeaderlessPartitions:
    """Partitions without a leader according to Metadata. Partition -1 is the whole topic."""

    def __init__(self) -> None:
        self.outages: BoundedDict[TopicPartition, _Outage] = BoundedDict(MAX_LEADERLESS)


@rule("S006", severity=Severity.WARNING, events=(ResponseReceived,), apis=("Metadata",), since="0.1", blame="broker")
def leader_not_available_stuck(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a partition without a leader gets one within 8 seconds.

    ## Why it matters
    With LEADER_NOT_AVAILABLE, nothing can be written to or read from the partition. Clients retry until the error ends;
    right after a topic is created or a broker stops, it lasts about a second.

    ## Usual cause
    All brokers with a replica are down, only out-of-sync replicas are left, or the server cannot elect a leader
    because its controller or ZooKeeper is not available.

    ## Example
    ```story
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "partitions": [{"error_code": 5, "leader_id": -1}]}]}
    +20s
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "partitions": [{"error_code": 5, "leader_id": -1}]}]}
    +20s
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "partitions": [{"error_code": 5, "leader_id": -1}]}]}
    ```

    ## Look-alikes
    ```story
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "partitions": [{"error_code": 5, "leader_id": -1}]}]}
    +10s
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"brokers": [{"node_id": 1}], "topics": [{"name": "orders", "partitions": [{"leader_id": 1}]}]}
    +25s
    > Metadata v8 {"topics": [{"name": "orders"}]}
    < {"topics": [{"name": "orders", "partitions": [{"error_code": 5, "leader_id": -1}]}]}
    ```

    ## Sources
    https://github.com/confluentinc/cp-docker-images/issues/394
    https://github.com/SOHU-Co/kafka-node/issues/979
    """
    message = event.message
    if message is None or event.request is None or message.diagnosis is not None:
        return
    outages = connection.run.state(_LeaderlessPartitions).outages
    for index, topic in enumerate(message.body["topics"] or ()):
        for row_index, partition in ((-1, topic), *enumerate(topic["partitions"] or ())):
            if partition["error_code"] != LEADER_NOT_AVAILABLE:
                if outages:
                    outages.pop((topic_name_or_id(topic), partition.get("partition_index", -1)), None)
                continue
            topic_partition = (topic_name_or_id(topic), partition.get("partition_index", -1))
            outage = outages.get(topic_partition)
            if outage is None or event.at - outage.last_at > RESET_AFTER:
                outages[topic_partition] = _Outage(event.at, event.at)
                continue
            outage.last_at = event.at
            outage.responses += 1
            if outage.responses >= MIN_RESPONSES and event.at - outage.first_at >= MAX_DURATION:
                path = ("topics", index) if row_index < 0 else ("topics", index, "partitions", row_index)
                yield _leaderless_problem(
                    message, topic_partition, (event.at - outage.first_at) / 1e9, path, connection
                )


def _leaderless_problem(
    message: Message,
    topic_partition: TopicPartition,
    seconds: float,
    path: tuple[Any, ...],
    connection: ConnectionState,
) -> Problem:
    topic = label(topic_partition, connection).removesuffix("[-1]")
    return Problem(
        f"{topic} has had no leader for {seconds:.0f} s: Metadata reports LEADER_NOT_AVAILABLE",
        **locate(message, *path, "error_code"),
        hint="check which brokers hold its replicas and whether they are up: kafka-topics.sh --describe "
        "--unavailable-partitions",
        once_per=connection.run.topic_names.get(topic_partition[0], topic_partition[0]),  # all brokers report it
    )
