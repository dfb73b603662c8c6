"""Find the record data and payloads in a layout, once per layout, so that messages without them cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dissectors.embedded.registry import Reader, Row, Rows, reader_of
from dissectors.wire.layout import Layout, cached_on_owner

#: Returns the name of a topic by its id, None if unknown.
TopicName = Callable[[str], str | None]

_METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@dataclass(frozen=True, slots=True)
class EmbeddedLocation:
    """A field with embedded data: structs with locations `children`, a payload with a `reader`, or else record data."""

    name: str
    reader: Reader | None = None
    children: tuple[EmbeddedLocation, ...] = ()


@cached_on_owner
def embedded_locations(layout: Layout) -> tuple[EmbeddedLocation, ...]:
    """Return the fields of a message or payload that have embedded data; most have none."""
    return _find_locations(layout, layout.name, "")


def _find_locations(layout: Layout, owner: str, prefix: str) -> tuple[EmbeddedLocation, ...]:
    locations: dict[str, EmbeddedLocation] = {}  # a diagnosed layout may have a field twice
    for field in (*layout.fields, *layout.tagged):
        path = prefix + field.name
        if field.struct is not None:
            if nested := _find_locations(field.struct, owner, f"{path}."):
                locations[field.name] = EmbeddedLocation(field.name, children=nested)
        elif field.type == "records":
            locations[field.name] = EmbeddedLocation(field.name)
        elif field.type == "bytes" and not field.array and (reader := reader_of(owner, path)):
            locations[field.name] = EmbeddedLocation(field.name, reader)
    return tuple(locations.values())


def topic_of(rows: Rows, topic_name: TopicName) -> str | None:
    """Return the topic named by the innermost struct that names one; None if there is none."""
    for row in reversed(rows):
        if name := _topic(row, topic_name):
            return name
    return None


def record_topics(row: Row, locations: tuple[EmbeddedLocation, ...]) -> set[str]:
    """Return the topics with record data that the message names; of a partial body, only those in the part read."""
    names = {name} if (name := _topic(row, no_topic_name)) else set()
    for location in locations:
        elements = row.get(location.name) if location.children else None
        for element in elements if isinstance(elements, list) else ():
            names |= record_topics(element, location.children)
    return names


def _topic(row: Row, topic_name: TopicName) -> str | None:
    name: str | None = row.get("topic") or row.get("name")
    if name is None and (topic_id := row.get("topic_id")):
        return "__cluster_metadata" if topic_id == _METADATA_TOPIC_ID else topic_name(topic_id)
    return name


def no_topic_name(_: str) -> str | None:
    """Return None: a `TopicName` that knows no topic ids."""
    return None
