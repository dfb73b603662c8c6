"""Partitions of members in responses, grouped by topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kproxy.broker.groups.assignors import Part

if TYPE_CHECKING:
    from kproxy.broker.topics import Topics


def by_topic(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return ``topic_id`` and ``partitions`` of each topic, sorted by id."""
    found: dict[str, list[int]] = {}
    for topic_id, index in sorted(parts):
        found.setdefault(topic_id, []).append(index)
    return [{"topic_id": topic_id, "partitions": indexes} for topic_id, indexes in found.items()]


def named(parts: Iterable[Part], topics: Topics) -> list[dict[str, Any]]:
    """Return the same with ``topic_name``; without deleted topics."""
    found = ((topics.with_id(each["topic_id"]), each) for each in by_topic(parts))
    return [{**each, "topic_name": topic.name} for topic, each in found if topic is not None]
