"""Partitions of members in responses, grouped by topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kproxy.broker.groups.assignors import Part

if TYPE_CHECKING:
    from kproxy.broker.topics import Topics


def by_topic(partitions: Iterable[Part]) -> list[dict[str, Any]]:
    """Return ``topic_id`` and ``partitions`` of each topic, sorted by id."""
    indexes_by_topic: dict[str, list[int]] = {}
    for topic_id, index in sorted(partitions):
        indexes_by_topic.setdefault(topic_id, []).append(index)
    return [{"topic_id": topic_id, "partitions": indexes} for topic_id, indexes in indexes_by_topic.items()]


def named(partitions: Iterable[Part], topics: Topics) -> list[dict[str, Any]]:
    """Return the same with ``topic_name``; without deleted topics."""
    rows = ((topics.with_id(topic["topic_id"]), topic) for topic in by_topic(partitions))
    return [{**row, "topic_name": topic.name} for topic, row in rows if topic is not None]
