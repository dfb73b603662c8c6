"""Where a layout holds record data and payloads: found once a layout, so that the many that hold none cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dissectors.embedded.registry import Reader, Row, Rows, reader_of
from dissectors.wire.layout import Layout, cached_on_owner

#: Topic id -> name, None where it is not known.
TopicName = Callable[[str], str | None]

_METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@dataclass(frozen=True, slots=True)
class EmbeddedLocation:
    """A field with something inside: structs that hold spots `below`, a payload with a `reader`, else record data."""

    name: str
    reader: Reader | None = None
    below: tuple[EmbeddedLocation, ...] = ()


@cached_on_owner
def spots(layout: Layout) -> tuple[EmbeddedLocation, ...]:
    """The fields of a message or payload that hold something, empty for most."""
    return _find(layout, layout.name, "")


def _find(layout: Layout, owner: str, prefix: str) -> tuple[EmbeddedLocation, ...]:
    found: dict[str, EmbeddedLocation] = {}  # a layout that a diagnosis made may have a field twice
    for one in (*layout.fields, *layout.tagged):
        path = prefix + one.name
        if one.struct is not None:
            if below := _find(one.struct, owner, f"{path}."):
                found[one.name] = EmbeddedLocation(one.name, below=below)
        elif one.type == "records":
            found[one.name] = EmbeddedLocation(one.name)
        elif one.type == "bytes" and not one.array and (reader := reader_of(owner, path)):
            found[one.name] = EmbeddedLocation(one.name, reader)
    return tuple(found.values())


def topic_of(rows: Rows, topic_name: TopicName) -> str | None:
    """The topic that the innermost struct with a topic names."""
    for row in reversed(rows):
        if name := _topic(row, topic_name):
            return name
    return None


def topics(row: Row, below: tuple[EmbeddedLocation, ...]) -> set[str]:
    """The topics with record data that can be named without asking; of a partial body, those that were read."""
    found = {name} if (name := _topic(row, no_name)) else set()
    for spot in below:
        inner = row.get(spot.name) if spot.below else None
        for each in inner if isinstance(inner, list) else ():
            found |= topics(each, spot.below)
    return found


def _topic(row: Row, topic_name: TopicName) -> str | None:
    name: str | None = row.get("topic") or row.get("name")
    if name is None and (topic_id := row.get("topic_id")):
        return "__cluster_metadata" if topic_id == _METADATA_TOPIC_ID else topic_name(topic_id)
    return name


def no_name(_: str) -> str | None:
    """Knows the name of no topic id."""
    return None
