"""Finds the record data in the body of a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.embedded.locations import EmbeddedLocation, TopicName, embedded_locations, no_topic_name, topic_of
from dissectors.embedded.registry import Row, Rows
from dissectors.messages.message import Message


class RecordField(NamedTuple):
    """A field with record data: its topic and partition, None if unknown, its path in the body, and its batches."""

    topic: str | None
    partition: int | None
    path: str
    batches: list[Row]


def record_field_names(message: Message) -> frozenset[str]:
    """Return the names of the fields with record data in the layout of a message; empty for most."""
    return frozenset() if message.layout is None else frozenset(_record_field_names(embedded_locations(message.layout)))


def _record_field_names(locations: tuple[EmbeddedLocation, ...]) -> Iterator[str]:
    for location in locations:
        if location.children:
            yield from _record_field_names(location.children)
        elif location.reader is None:
            yield location.name


def record_data(message: Message, body: Row, topic_name: TopicName = no_topic_name) -> Iterator[RecordField]:
    """Yield each field with record data in a body that `embedded` has expanded."""
    if message.layout is not None:
        yield from _record_fields(body, embedded_locations(message.layout), (), "", topic_name)


def _record_fields(
    row: Row, locations: tuple[EmbeddedLocation, ...], rows: Rows, path: str, topic_name: TopicName
) -> Iterator[RecordField]:
    rows = (*rows, row)
    for location in locations:
        value, field_path = row.get(location.name), f"{path}.{location.name}" if path else location.name
        if location.children:
            elements = (
                [(f"{field_path}[{index}]", element) for index, element in enumerate(value)]
                if isinstance(value, list)
                else [(field_path, value)]
            )
            for element_path, element in elements:
                if isinstance(element, dict):
                    yield from _record_fields(element, location.children, rows, element_path, topic_name)
        elif location.reader is None and isinstance(value, list):
            partition = row.get("index", row.get("partition_index"))
            yield RecordField(topic_of(rows, topic_name), partition, field_path, value)
