"""The assignor of share groups, in which several members may read the same partition.

Source: SimpleAssignor of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kproxy.broker.groups.assignors import Part, Subscriber


def simple(members: Collection[Subscriber], topics: Mapping[str, int]) -> dict[str, frozenset[Part]]:
    """Assign each partition to enough members to keep all of them busy, evenly, moving as little as possible.

    Args:
        members: With their previous assignment.
        topics: Number of partitions by topic id.
    """
    target: dict[str, set[Part]] = {member.id: set() for member in members}
    if len({member.topics for member in members}) == 1:
        subscribed = next(iter(members)).topics
        parts = [(topic, index) for topic, count in topics.items() if topic in subscribed for index in range(count)]
        _spread(members, parts, target)
    else:
        for topic, count in topics.items():
            readers = [member for member in members if topic in member.topics]
            _spread(readers, [(topic, index) for index in range(count)], target)
    return {member: frozenset(parts) for member, parts in target.items()}


def _spread(members: Collection[Subscriber], parts: Sequence[Part], target: dict[str, set[Part]]) -> None:
    """Distribute partitions over members that all subscribe to them."""
    if not members or not parts:
        return
    sharing = -(-len(members) // len(parts))  # members per partition
    total = sharing * len(parts)
    quotas = {
        member.id: -(-total * (number + 1) // len(members)) + (-total * number // len(members))
        for number, member in enumerate(members)
    }
    readers: dict[Part, set[str]] = {part: set() for part in parts}
    left = dict(quotas)
    for consumer in members:
        for part in sorted(consumer.target & readers.keys()):
            if left[consumer.id] and len(readers[part]) < sharing:
                readers[part].add(consumer.id)
                left[consumer.id] -= 1
    hungry = [member for member, quota in left.items() if quota > 0]
    for part in parts:
        passed = []
        while hungry and len(readers[part]) < sharing:
            member = hungry.pop(0)
            if member in readers[part]:
                passed.append(member)
                continue
            readers[part].add(member)
            left[member] -= 1
            if left[member]:
                hungry.append(member)
        hungry = passed + hungry
    for part, having in readers.items():
        for member in having:
            target[member].add(part)
