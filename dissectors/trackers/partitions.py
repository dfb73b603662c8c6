"""Partitions in Produce and Fetch messages, by topic name or id, and their errors.

Values are read with `get`, and lists may be null: a diagnosed layout may lack fields of the version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dissectors.trackers.state import ConnectionState

#: Topic (name or id, depending on the version) and partition index.
TopicPartition = tuple[str, int]


class RefusedPartition(NamedTuple):
    """The error of a partition in a response; `where` is the path of its field."""

    topic_partition: TopicPartition
    code: int
    where: tuple[str | int, ...]


def topic_name_or_id(row: Mapping[str, Any]) -> str:
    """Return the name or id of a topic in a Produce or Fetch message."""
    name: str = row.get("topic") or row.get("name") or row.get("topic_id") or ""
    return name


def label(topic_partition: TopicPartition, connection: ConnectionState) -> str:
    """Format a partition, with the topic's name if known: ``orders[2]``."""
    topic, partition = topic_partition
    return f"{connection.run.topic_names.get(topic, topic)}[{partition}]"


def refusals(body: Mapping[str, Any], partitions_field: str, index_field: str) -> list[RefusedPartition]:
    """Return the partitions with an error, given the names of the API's fields for partitions and their index."""
    return [
        RefusedPartition(
            (topic_name_or_id(topic), row.get(index_field, 0)),
            code,
            ("responses", i, partitions_field, j, "error_code"),
        )
        for i, topic in enumerate(body.get("responses") or ())
        for j, row in enumerate(topic.get(partitions_field) or ())
        if (code := row.get("error_code"))
    ]
