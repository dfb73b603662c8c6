"""Topics and their partitions: names, ids, leaders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dissectors.wire.layout import NULL_UUID
from kproxy.broker.change_signal import ChangeSignal
from kproxy.broker.cluster import new_uuid
from kproxy.broker.configs import Configs
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log import Log

if TYPE_CHECKING:
    from kproxy.broker.cluster import BrokerNode, Cluster

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_MAX_NAME_LENGTH: Final = 249
#: Limit for one request: org.apache.kafka.controller.ReplicationControlManager.MAX_PARTITIONS_PER_BATCH.
MAX_NEW_PARTITIONS: Final = 10_000
#: The limit for all topics together: a partition takes 2 KB of memory. Kafka has no such limit.
_MAX_PARTITIONS: Final = 200_000


@dataclass(slots=True)
class Partition:
    """A partition; all replicas have the same data. `leader` is -1 while no replica is up."""

    topic: str
    topic_id: str
    index: int
    replicas: list[int]
    log: Log
    leader: int
    leader_epoch: int = 0
    isr: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Topic:
    """A topic. `partitions` are sorted by index, from 0."""

    name: str
    id: str
    partitions: list[Partition]
    internal: bool = False


class Topics:
    """All topics of a cluster. `changed` is notified when one is created or deleted, or changes leaders."""

    def __init__(self, cluster: Cluster) -> None:
        self.changed = ChangeSignal()
        self._cluster = cluster
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[str, Topic] = {}
        self._by_metric_name: dict[str, dict[str, None]] = {}  # metric name -> topic names
        self._partition_count = 0  # in all topics
        for name, stored in cluster.journal.entries("topics"):
            self._restore(name, stored)
        for name, partitions in cluster.options.topics.items():
            if name not in self._by_name:
                self.create(name, self.choose_replicas(partitions, self.default_replication))

    @property
    def default_replication(self) -> int:
        """``default.replication.factor``, limited to the number of brokers that are up."""
        live_count = sum(node.up for node in self._cluster.nodes.values())
        return min(int(self._cluster.part(Configs).broker("default.replication.factor")), live_count)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def by_name(self, name: str) -> Topic | None:
        """Return the topic with that name."""
        return self._by_name.get(name)

    def by_id(self, topic_id: str) -> Topic | None:
        """Return the topic with that id, a UUID as Kafka prints it."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """Return a partition; None if it does not exist."""
        topic = self._by_name.get(name)
        return topic.partitions[index] if topic and 0 <= index < len(topic.partitions) else None

    def find_colliding(self, name: str) -> str | None:
        """Return a topic whose metrics collide with those of `name`: Kafka treats ``.`` and ``_`` as equal there."""
        return next(
            (candidate for candidate in self._by_metric_name.get(_metric_name(name), ()) if candidate != name), None
        )

    def check_request(self, partitions: int) -> None:
        """Raise `ApiError` with POLICY_VIOLATION if one request, or all together, would create too many partitions."""
        if partitions > MAX_NEW_PARTITIONS:
            raise ApiError(Error.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        if self._partition_count + partitions > _MAX_PARTITIONS:
            raise ApiError(Error.POLICY_VIOLATION, f"The cluster can have {_MAX_PARTITIONS} partitions.")

    def find(self, name: str | None, topic_id: str | None) -> Topic:
        """Return the topic with this id or, if a request contains no id, with this name.

        Raises:
            ApiError: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION.
        """
        if topic_id is not None and topic_id != NULL_UUID:
            if (topic := self._by_id.get(topic_id)) is None:
                raise ApiError(Error.UNKNOWN_TOPIC_ID)
            return topic
        if (topic := self._by_name.get(name or "")) is None:
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def find_led_partition(
        self, node: BrokerNode, topic: Topic, index: int, leader_epoch: int = -1, *, any_replica: bool = False
    ) -> Partition:
        """Return a partition for a request that needs its leader, or any replica.

        Args:
            node: The broker that received the request.
            topic: The topic.
            index: The partition index.
            leader_epoch: The leader epoch in the request; -1 for none.
            any_replica: Whether followers may also respond.

        Raises:
            ApiError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        if not 0 <= index < len(topic.partitions):
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        partition = topic.partitions[index]
        if node.id not in partition.replicas:
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
        if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
            is_older = leader_epoch < partition.leader_epoch
            raise ApiError(Error.FENCED_LEADER_EPOCH if is_older else Error.UNKNOWN_LEADER_EPOCH)
        if partition.leader != node.id and not any_replica:
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
        return partition

    def choose_replicas(self, partitions: int, replication: int = 1, first: int | None = None) -> list[list[int]]:
        """Choose replicas for partitions; the brokers that are up become leaders in turn.

        Args:
            partitions: Number of partitions.
            replication: Number of replicas of each partition.
            first: Index of the first new partition in its topic.

        Raises:
            ApiError: INVALID_REPLICATION_FACTOR, INVALID_PARTITIONS.
        """
        live_nodes = sorted(node.id for node in self._cluster.nodes.values() if node.up)
        if partitions < 1:
            raise ApiError(Error.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
        if replication < 1:
            raise ApiError(
                Error.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if replication > len(live_nodes):
            raise ApiError(
                Error.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replication} time(s): "
                f"The target replication factor of {replication} cannot be reached "
                f"because only {len(live_nodes)} broker(s) are registered or some brokers are fenced.",
            )
        start = len(self._by_name) if first is None else first
        return [
            [live_nodes[(start + index + replica_number) % len(live_nodes)] for replica_number in range(replication)]
            for index in range(partitions)
        ]

    def create(self, name: str, replicas: Sequence[Sequence[int]], *, internal: bool = False) -> Topic:
        """Create a topic with these replicas for each partition; the first replica is the leader.

        Raises:
            ApiError: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, KAFKA_STORAGE_ERROR.
        """
        check_name(name)
        if name in self._by_name:
            raise ApiError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        topic = self._add(name, new_uuid(), replicas, internal=internal)
        self._store(topic)
        if not self._cluster.journal.is_stored:  # otherwise a restart would lose the topic and its records
            self.delete(topic)
            raise ApiError(Error.KAFKA_STORAGE_ERROR, f"Topic '{name}' cannot be stored.")
        self.changed.notify()
        return topic

    def add_partitions(self, topic: Topic, replicas: Sequence[Sequence[int]]) -> None:
        """Add partitions to a topic.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR.
        """
        first = len(topic.partitions)
        self._add_partitions(topic, replicas)
        self._store(topic)
        if not self._cluster.journal.is_stored:  # as in `create`
            self._remove_partitions(topic, first)
            self._store(topic)
            raise ApiError(Error.KAFKA_STORAGE_ERROR, f"The partitions of topic '{topic.name}' cannot be stored.")
        self.changed.notify()

    def delete(self, topic: Topic) -> None:
        """Delete a topic and its data."""
        del self._by_name[topic.name], self._by_id[topic.id]
        names = self._by_metric_name[_metric_name(topic.name)]
        del names[topic.name]
        if not names:
            del self._by_metric_name[_metric_name(topic.name)]
        for partition in topic.partitions:
            partition.log.delete()
        self._partition_count -= len(topic.partitions)
        self._cluster.journal.put("topics", topic.name, None)
        self.changed.notify()

    def set_leader(self, partition: Partition, leader: int) -> None:
        """Make another replica the leader; -1 for none."""
        if partition.leader != leader:
            partition.leader = leader
            self._begin_epoch(partition, partition.leader_epoch + 1)
            self._store(self._by_name[partition.topic])
            self.changed.notify()

    def replace(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Replace a partition's replicas; it keeps its leader if that broker is up and among them."""
        live_replicas = [replica for replica in replicas if self._cluster.nodes[replica].up]
        partition.replicas, partition.isr = list(replicas), live_replicas
        if partition.leader not in live_replicas:
            self.set_leader(partition, live_replicas[0] if live_replicas else -1)
        self._store(self._by_name[partition.topic])

    def update_leaders(self) -> None:
        """Elect missing leaders and update the in-sync replicas after a node has started or stopped."""
        for topic in self:
            for partition in topic.partitions:
                partition.isr = [replica for replica in partition.replicas if self._cluster.nodes[replica].up]
                if partition.leader not in partition.isr:
                    self.set_leader(partition, partition.isr[0] if partition.isr else -1)
        self.changed.notify()

    def _add(self, name: str, topic_id: str, replicas: Sequence[Sequence[int]], *, internal: bool = False) -> Topic:
        topic = Topic(name, topic_id, [], internal)
        self._add_partitions(topic, replicas)
        self._by_name[name] = self._by_id[topic_id] = topic
        self._by_metric_name.setdefault(_metric_name(name), {})[name] = None
        return topic

    def _add_partitions(self, topic: Topic, replicas: Sequence[Sequence[int]]) -> None:
        """Add all of these partitions, or none."""
        first = len(topic.partitions)
        try:
            for index, broker_ids in enumerate(replicas, first):
                topic.partitions.append(self._create_partition(topic, index, broker_ids))
                self._partition_count += 1
        except ApiError:
            self._remove_partitions(topic, first)
            raise

    def _remove_partitions(self, topic: Topic, first: int) -> None:
        for partition in topic.partitions[first:]:
            partition.log.delete()
            self._partition_count -= 1
        del topic.partitions[first:]

    def _restore(self, name: str, stored: Mapping[str, Any]) -> None:
        """Restore a stored topic. Unknown brokers are removed from its replicas, and its leaders begin a new epoch."""
        nodes = self._cluster.nodes
        replicas = [[node for node in broker_ids if node in nodes] or [min(nodes)] for broker_ids in stored["replicas"]]
        topic = self._add(name, stored["id"], replicas, internal=stored["internal"])
        for partition, epoch in zip(topic.partitions, stored["leader_epochs"], strict=True):
            self._begin_epoch(partition, epoch + 1)
        self._store(topic)

    def _create_partition(self, topic: Topic, index: int, replicas: Sequence[int]) -> Partition:
        log = Log(self._cluster, topic.name, topic.id, index)
        partition = Partition(topic.name, topic.id, index, list(replicas), log, replicas[0], isr=list(replicas))
        self._begin_epoch(partition, 0)
        return partition

    def _begin_epoch(self, partition: Partition, epoch: int) -> None:
        partition.leader_epoch = epoch
        partition.log.begin_epoch(epoch)

    def _store(self, topic: Topic) -> None:
        stored: Mapping[str, object] = {
            "id": topic.id,
            "internal": topic.internal,
            "replicas": [partition.replicas for partition in topic.partitions],
            "leader_epochs": [partition.leader_epoch for partition in topic.partitions],
        }
        self._cluster.journal.put("topics", topic.name, stored)


def _metric_name(name: str) -> str:
    return name.replace(".", "_")


def check_name(name: str) -> None:
    """Raise `ApiError` unless the topic name is valid (org.apache.kafka.common.internals.Topic)."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > _MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {_MAX_NAME_LENGTH}"
    elif not _LEGAL_NAME.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise ApiError(Error.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
