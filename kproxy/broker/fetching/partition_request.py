"""What a Fetch requests from one partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

#: A topic's id, or in versions before 13 its name, and the index of the partition.
Key: TypeAlias = tuple[str, int]


class PartitionRequest(NamedTuple):
    """From where, and at most how much; -1 is no epoch that the reader knows of."""

    key: Key
    offset: int
    max_bytes: int
    leader_epoch: int


def topic_key(asked: Mapping[str, Any]) -> str:
    """What a request calls a topic."""
    return str(asked["topic_id"] if "topic_id" in asked else asked["topic"])


def wanted(body: Mapping[str, Any]) -> dict[Key, PartitionRequest]:
    """What a request lists, in its order; of a partition that is there twice the last holds."""
    found = {}
    for topic in body["topics"]:
        for each in topic["partitions"]:
            key = topic_key(topic), each["partition"]
            epoch = each.get("current_leader_epoch", -1)
            found[key] = PartitionRequest(key, each["fetch_offset"], each["partition_max_bytes"], epoch)
    return found


def forgotten(body: Mapping[str, Any]) -> list[Key]:
    """The partitions that a session is to ask no longer."""
    return [
        (topic_key(topic), index) for topic in body.get("forgotten_topics_data", ()) for index in topic["partitions"]
    ]
