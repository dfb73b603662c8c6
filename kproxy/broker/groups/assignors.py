"""The assignors of consumer groups.

Source: UniformAssignor and RangeAssignor of Kafka 4.3; racks are ignored, as in Kafka's default configuration.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

#: A topic id and a partition index.
TopicIdPartition: TypeAlias = tuple[str, int]

_MAX_PASSES: Final = 10  # limit on passes over all members while balancing


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it: the ids of its topics, and its previous target assignment."""

    id: str
    instance_id: str | None
    topics: frozenset[str]
    target: frozenset[TopicIdPartition]


#: Takes the members and the number of partitions of each topic; returns the partitions of each member.
Assignor: TypeAlias = Callable[[Collection[Subscriber], Mapping[str, int]], dict[str, frozenset[TopicIdPartition]]]


def assign_uniform(
    members: Collection[Subscriber], topics: Mapping[str, int]
) -> dict[str, frozenset[TopicIdPartition]]:
    """Balance the number of partitions per member, moving as few partitions as possible."""
    balance = _Balance(members, topics)
    unassigned = {(topic, index) for topic, count in topics.items() for index in range(count)}
    for subscriber in members:
        kept_partitions = {
            partition for partition in subscriber.target if partition[0] in subscriber.topics
        } & unassigned
        unassigned -= kept_partitions
        balance.give_all(subscriber.id, kept_partitions)
    for partition in sorted(unassigned):
        if (member := balance.least_loaded(partition[0])) is not None:
            balance.give(member, partition)
    balance.balance()
    return {member: frozenset(partitions) for member, partitions in balance.assigned.items()}


def assign_range(members: Collection[Subscriber], topics: Mapping[str, int]) -> dict[str, frozenset[TopicIdPartition]]:
    """Assign each member a range of each topic's partitions; topics with equal partition counts get equal ranges."""
    assignments: dict[str, set[TopicIdPartition]] = {member.id: set() for member in members}
    sorted_members = sorted(members, key=lambda member: (member.instance_id is None, member.instance_id or member.id))
    for topic, count in topics.items():
        readers = [subscriber.id for subscriber in sorted_members if topic in subscriber.topics]
        start = 0
        for rank, reader in enumerate(readers):
            end = start + count // len(readers) + (rank < count % len(readers))
            assignments[reader].update((topic, index) for index in range(start, end))
            start = end
    return {member: frozenset(partitions) for member, partitions in assignments.items()}


#: The assignors by their names in requests; the first is the default.
ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}


class _Balance:
    """An assignment in progress. It finds the least loaded member for each topic."""

    def __init__(self, members: Collection[Subscriber], topics: Mapping[str, int]) -> None:
        self.assigned: dict[str, set[TopicIdPartition]] = {member.id: set() for member in members}
        # Topics with the same readers share a heap of (load, member); outdated entries are corrected at the top.
        readers = {topic: tuple(member.id for member in members if topic in member.topics) for topic in topics}
        heaps = {
            group_readers: [(0, member) for member in sorted(group_readers)] for group_readers in set(readers.values())
        }
        self._heaps = {topic: heaps[group_readers] for topic, group_readers in readers.items()}

    def give(self, member: str, partition: TopicIdPartition) -> None:
        self.assigned[member].add(partition)

    def give_all(self, member: str, partitions: Collection[TopicIdPartition]) -> None:
        self.assigned[member].update(partitions)

    def least_loaded(self, topic: str) -> str | None:
        """Return the reader of a topic with the fewest partitions; None if nobody reads it."""
        heap = self._heaps[topic]
        while heap:
            load, member = heap[0]
            if load == len(self.assigned[member]):
                return member
            heapq.heapreplace(heap, (len(self.assigned[member]), member))
        return None

    def balance(self) -> None:
        """Move partitions from members to other members that have at least two fewer."""
        for _ in range(_MAX_PASSES):
            if not sum(self._move(*move) for move in self._most_loaded_first()):
                return

    def _most_loaded_first(self) -> Iterator[tuple[str, TopicIdPartition]]:
        for member in sorted(self.assigned, key=lambda member_id: -len(self.assigned[member_id])):
            for partition in sorted(self.assigned[member], reverse=True):
                yield member, partition

    def _move(self, owner: str, partition: TopicIdPartition) -> bool:
        receiver = self.least_loaded(partition[0])
        if receiver is None or len(self.assigned[owner]) - len(self.assigned[receiver]) < 2:
            return False
        self.assigned[owner].remove(partition)
        heapq.heappush(self._heaps[partition[0]], (len(self.assigned[owner]), owner))
        self.give(receiver, partition)
        return True
