"""The open share partitions of all groups."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.shares.partition import SharePartition
from kproxy.broker.shares.settings import ShareSettings
from kproxy.broker.shares.states import UNKNOWN, ShareState, ShareStates
from kproxy.broker.topics import Partition, Topics

if TYPE_CHECKING:
    from kproxy.broker.cluster import BrokerNode, Cluster

_DURATION: Final = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1000)


class SharePartitions:
    """Opens each share partition once per leader epoch."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock = cluster.clock
        self._topics = cluster.part(Topics)
        self._states = cluster.part(ShareStates)
        self._settings = cluster.part(ShareSettings)

    def find_open(self, group: str, partition: Partition) -> SharePartition | None:
        """Return the share partition if it has been fetched from in this leader epoch."""
        state = self._states.get(group, (partition.topic_id, partition.index))
        live = state.live if state is not None else None
        return live if live is not None and live.leader_epoch == partition.leader_epoch else None

    def find_led(self, node: BrokerNode, group: str, topic_id_partition: TopicIdPartition) -> SharePartition | None:
        """Return the share partition if it is open and the broker leads it."""
        topic = self._topics.by_id(topic_id_partition[0])
        partition = self._topics.partition(topic.name, topic_id_partition[1]) if topic is not None else None
        if partition is None or partition.leader != node.id:
            return None
        return self.find_open(group, partition)

    def open(self, group: str, partition: Partition) -> SharePartition:
        """Return the share partition; open it if needed.

        Raises:
            ApiError: UNKNOWN_SERVER_ERROR, as in Kafka, if the group has no state for it; OFFSET_NOT_AVAILABLE.
        """
        if (share_partition := self.find_open(group, partition)) is not None:
            return share_partition
        state = self._states.get(group, (partition.topic_id, partition.index))
        if state is None:
            message = "Read operation on uninitialized share partition not allowed."
            raise ApiError(Error.UNKNOWN_SERVER_ERROR, message)
        start = self._start_offset(group, partition, state)
        if state.live is not None:
            state.live.close()
        state.live = SharePartition(group, partition, state, start, self._states, self._settings, self._clock)
        return state.live

    def _start_offset(self, group: str, partition: Partition, state: ShareState) -> int:
        """Return the offset at which a group starts in a partition."""
        if state.start_offset != UNKNOWN:
            return state.start_offset
        log, reset = partition.log, self._settings.auto_offset_reset(group)
        if reset == "earliest":
            return log.start_offset
        if (duration := _DURATION.fullmatch(reset)) is None:
            return log.end_offset
        age_ms = sum(float(count or 0) * unit for count, unit in zip(duration.groups(), _UNITS_MS, strict=True))
        record = log.record_since(int(self._clock.now() - age_ms))
        if record is None:
            message = (
                f"Offset for timestamp {self._clock.now() - int(age_ms)} not found for topic partition: {log.name}"
            )
            raise ApiError(Error.OFFSET_NOT_AVAILABLE, message)
        return record[0]
