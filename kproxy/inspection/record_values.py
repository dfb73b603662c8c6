"""Decodes the keys, values and headers of the records in a body (`--payloads`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors import values
from dissectors.embedded.locations import EmbeddedLocation, TopicName, embedded_locations, topic_of
from dissectors.embedded.registry import Row, Rows
from dissectors.messages.message import Message
from dissectors.values import DecodedValue, SchemaKey, ValueContext
from dissectors.values.schemas_topic import is_schemas_topic
from kproxy.inspection.masks import MASKED, Masks
from kproxy.registry import SchemaSource, Sources
from kproxy.registry.observed import ObservedSchemas

_PARTS = ("key", "value")


class RecordValues:
    """Replaces the bytes of records in bodies by what they mean. Schemas in the traffic itself are used, too.

    Args:
        source: Where schemas come from.
        masks: What is left out.
    """

    def __init__(self, source: SchemaSource, masks: Masks) -> None:
        self._observed = ObservedSchemas()
        self._source = Sources([self._observed, source])
        self.masks = masks

    def decode(self, message: Message, body: Row, topic_name: TopicName) -> Row | None:
        """The body, as `embedded.presentable` made it, with decoded records in place.

        Keys, values and the values of headers become objects (docs/payloads.md); null stays null, and what kproxy has
        decoded or withheld already stays. With masks, the body of a message that does not decode is left out (None), as
        masked bytes may be anywhere in it.
        """
        if message.layout is None or not (locations := embedded_locations(message.layout)):
            return body
        if self.may_mask(message) and (message.error or message.trailing or message.diagnosis):
            return None
        contexts = [
            (topic, record, _headers(record))
            for topic, batches in _record_data(body, locations, (), topic_name)
            for record in _records(batches)
        ]
        for topic, record, _ in contexts:
            if is_schemas_topic(topic):
                self._observed.observe(_bytes(record.get("key")), _bytes(record.get("value")))
        schemas = self._source.lookup(self._keys(contexts)) if contexts else {}
        for topic, record, headers in contexts:
            for part in _PARTS:
                if isinstance(data := record.get(part), bytes | memoryview):
                    context = ValueContext(topic, part == "key", headers, schemas)
                    record[part] = self._shown(values.decode(bytes(data), context), topic, part)
            for header in record.get("headers", ()):
                if isinstance(data := header["value"], bytes | memoryview):
                    is_masked = self.masks.masks_header(topic, header["key"])
                    header["value"] = (
                        _masked_entry() if is_masked else entry(values.decode(bytes(data), ValueContext()))
                    )
        return body

    def may_mask(self, message: Message) -> bool:
        """Whether the message may have records of which parts are masked."""
        return bool(self.masks) and message.layout is not None and _has_records(embedded_locations(message.layout))

    def _keys(self, contexts: list[tuple[str | None, Row, tuple[tuple[str, bytes | None], ...]]]) -> set[SchemaKey]:
        return {
            key
            for topic, record, headers in contexts
            for part in _PARTS
            if isinstance(data := record.get(part), bytes | memoryview)
            for key in values.schema_keys(bytes(data), ValueContext(topic, part == "key", headers))
        }

    def _shown(self, value: DecodedValue, topic: str | None, part: str) -> dict[str, Any]:
        if not self.masks.applies(topic, part):
            return entry(value)
        if value.problem is not None:  # where the masked fields are is doubtful
            return _masked_entry() | ({"schema": _schema(value.schema)} if value.schema else {})
        return entry(value) | {"data": self.masks.masked(value.data, topic, part)}


def entry(value: DecodedValue) -> dict[str, Any]:
    """A value as an object of a trace; what is false or unknown is left out."""
    made: dict[str, Any] = {"format": value.format, "data": value.data}
    if value.is_guess:
        made["guess"] = True
    if value.schema is not None:
        made["schema"] = _schema(value.schema)
    for name in ("subject", "type", "reencoding"):
        if (found := getattr(value, name)) is not None:
            made[name] = found
    if value.problem is not None:
        made["problem"] = value.problem.text
        if value.problem.offset is not None:
            made["offset"] = value.problem.offset
    if value.is_cut:
        made["cut"] = True
    return made


def _schema(key: SchemaKey) -> dict[str, int | str]:
    return {key.form: key.value}


def _masked_entry() -> dict[str, Any]:
    return {"format": MASKED, "data": MASKED}


def _has_records(locations: tuple[EmbeddedLocation, ...]) -> bool:
    """Whether a message with these locations has fields with record data."""
    return any(_has_records(each.below) if each.below else each.reader is None for each in locations)


def _record_data(
    row: Row, locations: tuple[EmbeddedLocation, ...], rows: Rows, topic_name: TopicName
) -> Iterator[tuple[str | None, list[Row]]]:
    """The batches of each field with record data, and its topic."""
    rows = (*rows, row)
    for location in locations:
        value = row.get(location.name)
        if location.below:
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict):
                    yield from _record_data(each, location.below, rows, topic_name)
        elif location.reader is None and isinstance(value, list):
            yield topic_of(rows, topic_name), value


def _records(batches: list[Row]) -> Iterator[Row]:
    for batch in batches:
        if not batch.get("is_control"):
            yield from batch.get("records", ())


def _bytes(found: Any) -> bytes | None:
    return bytes(found) if isinstance(found, bytes | memoryview) else None


def _headers(record: Row) -> tuple[tuple[str, bytes | None], ...]:
    """The headers, read before their values are replaced."""
    return tuple((each["key"], _bytes(each["value"])) for each in record.get("headers", ()))
