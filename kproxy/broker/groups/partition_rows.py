"""Groups members' partitions by topic, as responses list them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kproxy.broker.groups.assignors import TopicIdPartition

if TYPE_CHECKING:
    from kproxy.broker.topics import Topics


def group_by_topic(partitions: Iterable[TopicIdPartition]) -> list[dict[str, Any]]:
    """Return ``topic_id`` and ``partitions`` of each topic, sorted by id."""
    indexes_by_topic: dict[str, list[int]] = {}
    for topic_id, index in sorted(partitions):
        indexes_by_topic.setdefault(topic_id, []).append(index)
    return [{"topic_id": topic_id, "partitions": indexes} for topic_id, indexes in indexes_by_topic.items()]


def group_by_topic_name(partitions: Iterable[TopicIdPartition], topics: Topics) -> list[dict[str, Any]]:
    """Return the rows of `group_by_topic` with ``topic_name``, without deleted topics."""
    rows = ((topics.by_id(topic["topic_id"]), topic) for topic in group_by_topic(partitions))
    return [{**row, "topic_name": topic.name} for topic, row in rows if topic is not None]
