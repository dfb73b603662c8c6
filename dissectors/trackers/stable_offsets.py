"""Last stable offsets that do not move: partitions that an open transaction holds, and the producer of its records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dissectors.bounded import BoundedDict
from dissectors.messages.transaction_facts import HeldPartition
from dissectors.trackers.partitions import TopicPartition
from dissectors.trackers.state import ConnectionState

_MAX_PARTITIONS = 10_000


@dataclass(slots=True)
class StableOffset:
    """A last stable offset since `since` (ns), while the high watermark above it rose from `begin` to `end`.

    `producer_id` and `producer_epoch` come from the batch at the offset; they are -1 until a reader has received it.
    """

    offset: int
    since: int
    begin: int
    end: int
    producer_id: int = -1
    producer_epoch: int = -1
    due: int = 0


class StableOffsets:
    """The stable offset of each partition, from Fetch responses to any reader. The tracker `Fetches` passes them on.

    The batch at the offset is in responses to consumers that read uncommitted records, and to followers.
    """

    def __init__(self) -> None:
        self._partitions: BoundedDict[TopicPartition, StableOffset] = BoundedDict(_MAX_PARTITIONS)

    def observe(self, held_partitions: Iterable[HeldPartition], at: int, connection: ConnectionState) -> None:
        """Record the held partitions in a response. A last stable offset never goes back."""
        names = connection.run.topic_names
        for partition in held_partitions:
            topic_partition = names.get(partition.topic, partition.topic), partition.partition
            stable_offset = self._partitions.get(topic_partition)
            offset, end = partition.last_stable_offset, partition.high_watermark
            if stable_offset is None or stable_offset.offset < offset:
                stable_offset = self._partitions[topic_partition] = StableOffset(offset, at, end, end)
            if stable_offset.offset == offset:
                stable_offset.end = max(stable_offset.end, end)
                if partition.producer_id >= 0:
                    stable_offset.producer_id, stable_offset.producer_epoch = (
                        partition.producer_id,
                        partition.producer_epoch,
                    )

    def for_partition(self, topic_partition: TopicPartition, connection: ConnectionState) -> StableOffset | None:
        """Return the latest stable offset of a partition; None if no transaction has held the partition."""
        return self._partitions.get(
            (connection.run.topic_names.get(topic_partition[0], topic_partition[0]), topic_partition[1])
        )
