"""Offsets: the committed offsets of groups, and those staged by transactions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.topics import Topics

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

#: A topic name and a partition index.
TopicPartition: TypeAlias = tuple[str, int]

_MAX_OFFSETS: Final = 1_000_000  # of all groups, including staged ones; further commits are rejected


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's committed offset in one partition.

    Attributes:
        offset: The offset of the next record to read.
        leader_epoch: The leader epoch of the record before that; -1 if the client sent none.
        metadata: The client's text.
        at: When it was committed, in ms since the epoch.
        topic_id: The topic's id at that time: a recreated topic has no offsets.
        expires: When it expires regardless of the group's state, in ms since the epoch; None if only the brokers'
            retention applies (before OffsetCommit v5 a client could set a retention time).
    """

    offset: int
    leader_epoch: int
    metadata: str
    at: int
    topic_id: str
    expires: int | None = None


@dataclass(slots=True)
class _StoredOffset:
    committed: CommittedOffset
    order: int  # position among all commits, staged or not: the latest one applies


class Offsets:
    """The committed offsets of all groups.

    Offsets committed in a transaction are staged, and hidden, until its coordinator completes it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._topics = cluster.part(Topics)
        self._journal = cluster.journal
        self._next_order = itertools.count()
        self._count = 0
        self._committed: dict[str, dict[TopicPartition, _StoredOffset]] = {}
        self._staged: dict[
            str, dict[int, dict[TopicPartition, tuple[int, _StoredOffset]]]
        ] = {}  # group -> producer id -> (epoch, ...)
        for key, value in cluster.journal.entries("offsets"):
            group, topic, partition = json.loads(key)
            self._store(group, (topic, partition), _StoredOffset(CommittedOffset(**value), next(self._next_order)))
        for key, value in cluster.journal.entries("staged offsets"):
            group, topic, partition, producer_id = json.loads(key)
            epoch, fields = value["producer_epoch"], value["committed"]
            staged = self._staged.setdefault(group, {}).setdefault(producer_id, {})
            staged[topic, partition] = epoch, _StoredOffset(CommittedOffset(**fields), next(self._next_order))
            self._count += 1

    def groups(self) -> Iterator[str]:
        """Return the ids of all groups with offsets, committed or staged."""
        return iter(list(dict.fromkeys((*self._committed, *self._staged))))

    def for_group(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return a group's committed offsets, after removing those of deleted topics."""
        stored = self._committed.get(group, {})
        for topic_partition in [
            topic_partition
            for topic_partition, offset in stored.items()
            if self._is_deleted(topic_partition[0], offset.committed)
        ]:
            self.delete(group, topic_partition)
        return {topic_partition: offset.committed for topic_partition, offset in stored.items()}

    def commit(self, group: str, commits: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Store offsets of a group.

        Raises:
            ApiError: INVALID_COMMIT_OFFSET_SIZE if all groups together have too many.
        """
        self._check_capacity(len(commits))
        for topic_partition, committed in commits.items():
            self._store(group, topic_partition, _StoredOffset(committed, next(self._next_order)))
            self._journal.put("offsets", _journal_key(group, topic_partition), asdict(committed))

    def delete(self, group: str, topic_partition: TopicPartition) -> None:
        """Delete a group's committed offset in a partition; staged offsets are kept."""
        stored = self._committed.get(group, {})
        if stored.pop(topic_partition, None) is not None:
            self._count -= 1
            self._journal.put("offsets", _journal_key(group, topic_partition), None)
        if not stored:
            self._committed.pop(group, None)

    def forget(self, group: str) -> None:
        """Delete all offsets of a deleted group, including staged ones."""
        for topic_partition in list(self._committed.get(group, ())):
            self.delete(group, topic_partition)
        for producer_id, staged in self._staged.pop(group, {}).items():
            for topic_partition in staged:
                self._unstage(group, topic_partition, producer_id)

    def stage(
        self, producer_id: int, producer_epoch: int, group: str, commits: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Stage offsets, which take effect if the producer's transaction commits.

        Raises:
            ApiError: INVALID_COMMIT_OFFSET_SIZE if all groups together have too many.
        """
        self._check_capacity(len(commits))
        staged = self._staged.setdefault(group, {}).setdefault(producer_id, {})
        for topic_partition, committed in commits.items():
            self._count += topic_partition not in staged
            staged[topic_partition] = producer_epoch, _StoredOffset(committed, next(self._next_order))
            value = {"producer_epoch": producer_epoch, "committed": asdict(committed)}
            self._journal.put("staged offsets", _journal_key(group, topic_partition, producer_id), value)

    def complete(self, producer_id: int, producer_epoch: int, group: str, commit: bool) -> None:
        """Apply or discard the offsets that a completed transaction staged for the group.

        Offsets committed outside the transaction since then are kept, as are offsets staged by a newer epoch.
        """
        producers = self._staged.get(group, {})
        staged = producers.get(producer_id, {})
        for topic_partition in [
            topic_partition for topic_partition, (epoch, _) in staged.items() if epoch <= producer_epoch
        ]:
            _, stored = staged.pop(topic_partition)
            self._unstage(group, topic_partition, producer_id)
            current = self._committed.get(group, {}).get(topic_partition)
            if commit and (current is None or current.order < stored.order):
                self._store(group, topic_partition, stored)
                self._journal.put("offsets", _journal_key(group, topic_partition), asdict(stored.committed))
        if not staged:
            producers.pop(producer_id, None)
        if not producers:
            self._staged.pop(group, None)

    def pending(self, group: str) -> frozenset[TopicPartition]:
        """Return the partitions in which a group has staged offsets."""
        return frozenset(
            topic_partition for staged in self._staged.get(group, {}).values() for topic_partition in staged
        )

    def _store(self, group: str, topic_partition: TopicPartition, stored: _StoredOffset) -> None:
        offsets = self._committed.setdefault(group, {})
        self._count += topic_partition not in offsets
        offsets[topic_partition] = stored

    def _unstage(self, group: str, topic_partition: TopicPartition, producer_id: int) -> None:
        self._count -= 1
        self._journal.put("staged offsets", _journal_key(group, topic_partition, producer_id), None)

    def _is_deleted(self, topic: str, committed: CommittedOffset) -> bool:
        current_topic = self._topics.by_name(topic)
        return current_topic is None or current_topic.id != committed.topic_id

    def _check_capacity(self, new_count: int) -> None:
        if self._count + new_count > _MAX_OFFSETS:
            raise ApiError(Error.INVALID_COMMIT_OFFSET_SIZE, f"more than {_MAX_OFFSETS} offsets are committed")


def _journal_key(group: str, topic_partition: TopicPartition, *suffix: Any) -> str:
    return json.dumps((group, *topic_partition, *suffix))
