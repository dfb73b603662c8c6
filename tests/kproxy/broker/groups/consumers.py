"""A consumer group without a broker, and members that follow its assignments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.consumer import ConsumerGroup
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.heartbeat import ConsumerHeartbeat
from kproxy.broker.topics import Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.journals import make_cluster


class ConsumerGroupHarness:
    """A group and the topic ``t`` with four partitions. Members are given by their ids, times are in ms."""

    def __init__(self, **configs: str) -> None:
        self.clock = FakeClock()
        self.move_to(make_cluster(self.clock, **configs))

    def move_to(self, cluster: Cluster) -> None:
        """Move the group to a different cluster."""
        self.cluster = cluster
        self.topics = cluster.part(Topics)
        self.groups = cluster.part(Groups)

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        self.topics.create(topic, [[1]] * partitions)

    def partitions(self, topic: str, *indexes: int) -> frozenset[tuple[str, int]]:
        """Return partitions of a topic, identified by topic id."""
        topic_state = self.topics.by_name(topic)
        assert topic_state is not None
        return frozenset((topic_state.id, index) for index in indexes)

    def consumer_heartbeat(self, member: str, epoch: int, **fields: Any) -> Mapping[str, Any]:
        """Send a heartbeat; return the response."""
        return self.groups.consumer_heartbeat("g", ConsumerHeartbeat(member, epoch, "client", "/127.0.0.1", **fields))

    @property
    def group(self) -> ConsumerGroup:
        """The group, which exists once a member has joined."""
        group = self.groups.find("g")
        assert isinstance(group, ConsumerGroup)
        return group

    def join(self, member: str, topics: tuple[str, ...] = ("t",), **fields: Any) -> Mapping[str, Any]:
        """Join with a rebalance timeout of 20 s."""
        defaults = {"rebalance_timeout_ms": 20_000, "topics": frozenset(topics), "owned": frozenset()}
        return self.consumer_heartbeat(member, 0, **{**defaults, **fields})

    def error(self, member: str, epoch: int, **fields: Any) -> Error:
        """Send a heartbeat; return the error."""
        try:
            self.consumer_heartbeat(member, epoch, **fields)
        except ApiError as refused:
            return refused.error
        return Error.NONE

    def settle(self, *members: str) -> None:
        """Send heartbeats until every member owns exactly what it is assigned."""
        for _ in range(3 * len(members)):
            for member in members:
                state = self.group.members[member]
                self.consumer_heartbeat(member, state.epoch, owned=frozenset(state.assigned))

    def assigned_indexes(self, member: str) -> list[int]:
        """Return the indexes of the partitions assigned to a member, in every topic."""
        return sorted(index for _, index in self.group.members[member].assigned)
