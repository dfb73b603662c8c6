"""Last stable offsets that stand still: partitions that an open transaction holds, and the producer of its records."""

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
    """A last stable offset below the high watermark: since when, and how far that has risen from `begin` to `end`.

    `producer_id` and `producer_epoch` are those of the batch at the offset, -1 while no reader has got it.
    """

    offset: int
    since: int
    begin: int
    end: int
    producer_id: int = -1
    producer_epoch: int = -1
    due: int = 0


class StableOffsets:
    """By partition, as Fetch responses show them, whoever reads. The tracker `Fetches` passes them.

    The batch at the offset is in responses to consumers that read uncommitted records, and to followers.
    """

    def __init__(self) -> None:
        self._places: BoundedDict[TopicPartition, StableOffset] = BoundedDict(_MAX_PARTITIONS)

    def observe(self, held: Iterable[HeldPartition], at: int, connection: ConnectionState) -> None:
        """Note the held partitions in a response. A last stable offset never goes back."""
        names = connection.run.topic_names
        for partition in held:
            topic_partition = names.get(partition.topic, partition.topic), partition.partition
            stable_offset = self._places.get(topic_partition)
            offset, end = partition.last_stable_offset, partition.high_watermark
            if stable_offset is None or stable_offset.offset < offset:
                stable_offset = self._places[topic_partition] = StableOffset(offset, at, end, end)
            if stable_offset.offset == offset:
                stable_offset.end = max(stable_offset.end, end)
                if partition.producer_id >= 0:
                    stable_offset.producer_id, stable_offset.producer_epoch = (
                        partition.producer_id,
                        partition.producer_epoch,
                    )

    def of(self, topic_partition: TopicPartition, connection: ConnectionState) -> StableOffset | None:
        """The latest one of a partition; None if no transaction has held it."""
        return self._places.get(
            (connection.run.topic_names.get(topic_partition[0], topic_partition[0]), topic_partition[1])
        )
