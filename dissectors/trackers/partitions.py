"""Partitions as Produce and Fetch speak of them, by topic name or id, and those that a response refuses.

Values are read with `get`, and lists may be null: a frame may read well in a layout that lacks fields of its version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dissectors.trackers.state import ConnectionState

#: Topic, by name or by id as the version has it, and partition.
Place = tuple[str, int]


class RefusedPartition(NamedTuple):
    """A partition's error in a response, and the way to its field."""

    place: Place
    code: int
    where: tuple[str | int, ...]


def topic_of(row: Mapping[str, Any]) -> str:
    """What a topic's row in a Produce or Fetch calls it."""
    name: str = row.get("topic") or row.get("name") or row.get("topic_id") or ""
    return name


def spoken(place: Place, connection: ConnectionState) -> str:
    """As people write it, by name where that is known: ``orders[2]``."""
    topic, partition = place
    return f"{connection.run.topic_names.get(topic, topic)}[{partition}]"


def refusals(body: Mapping[str, Any], rows: str, index: str) -> list[RefusedPartition]:
    """The partitions with an error; `rows` and `index` are what the API calls its partitions and their number."""
    return [
        RefusedPartition((topic_of(topic), each.get(index, 0)), code, ("responses", i, rows, j, "error_code"))
        for i, topic in enumerate(body.get("responses") or ())
        for j, each in enumerate(topic.get(rows) or ())
        if (code := each.get("error_code"))
    ]
