"""Groups' partitions of __consumer_offsets, which are reported as part of transactions that commit offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kproxy.broker.configs import Configs
from kproxy.broker.groups.offsets import TopicPartition
from kproxy.broker.java import java_hash

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

OFFSETS_TOPIC: Final = "__consumer_offsets"


def offsets_partition(cluster: Cluster, group: str) -> TopicPartition:
    """Return the partition of __consumer_offsets for a group."""
    partition_count = int(cluster.part(Configs).broker("offsets.topic.num.partitions"))
    return OFFSETS_TOPIC, abs(java_hash(group)) % partition_count
