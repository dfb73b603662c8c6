"""Partitions of members as answers show them: topic by topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kproxy.broker.groups.assignors import Part

if TYPE_CHECKING:
    from kproxy.broker.topics import Topics


def by_topic(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """``topic_id`` and ``partitions`` of each topic, in the order of the ids."""
    found: dict[str, list[int]] = {}
    for topic_id, index in sorted(parts):
        found.setdefault(topic_id, []).append(index)
    return [{"topic_id": topic_id, "partitions": indexes} for topic_id, indexes in found.items()]


def named(parts: Iterable[Part], topics: Topics) -> list[dict[str, Any]]:
    """The same with ``topic_name``; without topics that are gone."""
    found = ((topics.with_id(each["topic_id"]), each) for each in by_topic(parts))
    return [{**each, "topic_name": topic.name} for topic, each in found if topic is not None]
