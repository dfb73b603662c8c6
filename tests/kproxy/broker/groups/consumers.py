"""A consumer group without a broker, and members that do as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups.consumer import ConsumerGroup
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.heartbeat import ConsumerHeartbeat
from kproxy.broker.topics import Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.journals import cluster


class Consumers:
    """A group and the topic ``t`` of four partitions; members are their ids. Times in ms."""

    def __init__(self, **configs: str) -> None:
        self.clock = FakeClock()
        self.use(cluster(self.clock, **configs))

    def use(self, made: Cluster) -> None:
        """Have the group in another cluster."""
        self.cluster = made
        self.topics = made.part(Topics)
        self.groups = made.part(Groups)

    def create(self, topic: str, partitions: int = 1) -> None:
        """Make a topic."""
        self.topics.create(topic, [[1]] * partitions)

    def parts(self, topic: str, *indexes: int) -> frozenset[tuple[str, int]]:
        """Partitions of a topic as members name them."""
        found = self.topics.named(topic)
        assert found is not None
        return frozenset((found.id, index) for index in indexes)

    def consumer_heartbeat(self, member: str, epoch: int, **said: Any) -> Mapping[str, Any]:
        """A heartbeat; its answer."""
        return self.groups.consumer_heartbeat("g", ConsumerHeartbeat(member, epoch, "client", "/127.0.0.1", **said))

    @property
    def group(self) -> ConsumerGroup:
        """The group, once somebody has joined."""
        found = self.groups.find("g")
        assert isinstance(found, ConsumerGroup)
        return found

    def join(self, member: str, topics: tuple[str, ...] = ("t",), **said: Any) -> Mapping[str, Any]:
        """Join with a rebalance timeout of 20 s."""
        first = {"rebalance_timeout_ms": 20_000, "topics": frozenset(topics), "owned": frozenset()}
        return self.consumer_heartbeat(member, 0, **{**first, **said})

    def error(self, member: str, epoch: int, **said: Any) -> Error:
        """What a heartbeat is refused with."""
        try:
            self.consumer_heartbeat(member, epoch, **said)
        except Refused as refused:
            return refused.error
        return Error.NONE

    def settle(self, *members: str) -> None:
        """Have the members do what they are told until there is nothing left to do."""
        for _ in range(3 * len(members)):
            for member in members:
                known = self.group.members[member]
                self.consumer_heartbeat(member, known.epoch, owned=frozenset(known.assigned))

    def has(self, member: str) -> list[int]:
        """The partitions that a member was told it has, of whatever topics."""
        return sorted(index for _, index in self.group.members[member].assigned)
