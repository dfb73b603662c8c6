"""S076: a group leader that assigns a partition to two members."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.embedded import expand
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.partitions import TopicPartition
from dissectors.trackers.state import ConnectionState

#: The maximum number of partitions of an assignment that are compared.
_MAX_PARTITIONS = 100_000


@rule("S076", severity=Severity.ERROR, events=(RequestReceived,), apis=("SyncGroup",), since="0.1", blame="client")
def partition_assigned_twice(event: RequestReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that the leader of a consumer group assigns each partition to one member.

    ## Why it matters
    Two members read and commit the same partition: records are processed twice, and the committed offset goes back and
    forth. Nobody gets an error, because the coordinator does not read assignments.

    ## Usual cause
    An assignor that trusts what members claim to own, without comparing their generations. A custom assignor may do
    this on purpose.

    ## Example
    ```story
    > SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "a", "assignments": [
      {"member_id": "a", "assignment": {"type": "ConsumerProtocolAssignment", "version": 0, "data":
       {"assigned_partitions": [{"topic": "t", "partitions": [0, 1]}]}}},
      {"member_id": "b", "assignment": {"type": "ConsumerProtocolAssignment", "version": 0, "data":
       {"assigned_partitions": [{"topic": "t", "partitions": [1, 2]}]}}}]}
    ```

    ## Look-alikes
    ```story
    > SyncGroup v3 {"group_id": "g", "generation_id": 2, "member_id": "a", "assignments": [
      {"member_id": "a", "assignment": {"type": "ConsumerProtocolAssignment", "version": 0, "data":
       {"assigned_partitions": [{"topic": "t", "partitions": [0, 1]}]}}},
      {"member_id": "b", "assignment": {"type": "ConsumerProtocolAssignment", "version": 0, "data":
       {"assigned_partitions": [{"topic": "u", "partitions": [0, 1]}]}}}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_partition.assignment.strategy
    https://github.com/aio-libs/aiokafka/issues/1176
    """
    message = event.message
    if not message.body.get("assignments"):
        return
    message.spend(100 + len(message.frame))
    owners: dict[TopicPartition, str] = {}
    for index, row in enumerate(expand(message).get("assignments") or ()):
        assignment, member = row.get("assignment"), row.get("member_id", "")
        if not isinstance(assignment, dict) or assignment.get("type") != "ConsumerProtocolAssignment":
            continue
        for topic in (assignment.get("data") or {}).get("assigned_partitions") or ():
            for partition in topic.get("partitions") or ():
                owner = owners.setdefault((topic_partition := (topic.get("topic", ""), partition)), member)
                if len(owners) > _MAX_PARTITIONS:
                    return
                if owner is not member:
                    group = message.body.get("group_id", "")
                    yield Problem(
                        f"the leader of group {group!r} assigns {topic_partition[0]}[{partition}] to member {owner!r} "
                        f"and to member {member!r} in generation {message.body.get('generation_id')}",
                        **locate(message, "assignments", index, "assignment"),
                        hint="check the assignor of the leader, and the generations of the partitions that members "
                        "claim to own in JoinGroup",
                        cause=group,
                    )
                    return
