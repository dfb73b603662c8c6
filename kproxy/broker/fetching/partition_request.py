"""What a Fetch requests from one partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

#: A topic id, or before version 13 a topic name, and a partition index.
Key: TypeAlias = tuple[str, int]


class PartitionRequest(NamedTuple):
    """The fetch offset and size limit of one partition; the leader epoch is -1 if unknown."""

    key: Key
    offset: int
    max_bytes: int
    leader_epoch: int


def topic_key(entry: Mapping[str, Any]) -> str:
    """Return the topic id or name in a request."""
    return str(entry["topic_id"] if "topic_id" in entry else entry["topic"])


def requested_partitions(body: Mapping[str, Any]) -> dict[Key, PartitionRequest]:
    """Return the partitions in a request, in order; the last of any duplicates applies."""
    requests = {}
    for topic in body["topics"]:
        for partition in topic["partitions"]:
            key = topic_key(topic), partition["partition"]
            epoch = partition.get("current_leader_epoch", -1)
            requests[key] = PartitionRequest(key, partition["fetch_offset"], partition["partition_max_bytes"], epoch)
    return requests


def forgotten_partitions(body: Mapping[str, Any]) -> list[Key]:
    """Return the partitions to remove from a session."""
    return [
        (topic_key(topic), index) for topic in body.get("forgotten_topics_data", ()) for index in topic["partitions"]
    ]
