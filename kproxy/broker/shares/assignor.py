"""The assignor for share groups, in which several members may read the same partition.

Source: SimpleAssignor of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kproxy.broker.groups.assignors import Subscriber, TopicIdPartition


def assign_simple(members: Collection[Subscriber], topics: Mapping[str, int]) -> dict[str, frozenset[TopicIdPartition]]:
    """Assign partitions evenly, each to enough members to keep all members busy, moving as few as possible.

    Args:
        members: The members with their previous assignments.
        topics: Number of partitions by topic id.
    """
    target: dict[str, set[TopicIdPartition]] = {member.id: set() for member in members}
    if len({member.topics for member in members}) == 1:
        topic_ids = next(iter(members)).topics
        partitions = [(topic, index) for topic, count in topics.items() if topic in topic_ids for index in range(count)]
        _distribute(members, partitions, target)
    else:
        for topic, count in topics.items():
            readers = [member for member in members if topic in member.topics]
            _distribute(readers, [(topic, index) for index in range(count)], target)
    return {member: frozenset(partitions) for member, partitions in target.items()}


def _distribute(
    members: Collection[Subscriber], partitions: Sequence[TopicIdPartition], target: dict[str, set[TopicIdPartition]]
) -> None:
    """Distribute partitions over members that all subscribe to them."""
    if not members or not partitions:
        return
    members_per_partition = -(-len(members) // len(partitions))
    total = members_per_partition * len(partitions)
    quotas = {
        member.id: -(-total * (index + 1) // len(members)) + (-total * index // len(members))
        for index, member in enumerate(members)
    }
    readers: dict[TopicIdPartition, set[str]] = {partition: set() for partition in partitions}
    remaining = dict(quotas)
    for subscriber in members:
        for partition in sorted(subscriber.target & readers.keys()):
            if remaining[subscriber.id] and len(readers[partition]) < members_per_partition:
                readers[partition].add(subscriber.id)
                remaining[subscriber.id] -= 1
    waiting = [member for member, quota in remaining.items() if quota > 0]
    for partition in partitions:
        skipped = []
        while waiting and len(readers[partition]) < members_per_partition:
            member = waiting.pop(0)
            if member in readers[partition]:
                skipped.append(member)
                continue
            readers[partition].add(member)
            remaining[member] -= 1
            if remaining[member]:
                waiting.append(member)
        waiting = skipped + waiting
    for partition, reader_ids in readers.items():
        for member in reader_ids:
            target[member].add(partition)
