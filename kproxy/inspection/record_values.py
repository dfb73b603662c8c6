"""Decodes the keys, values and headers of the records in a body (`--payloads`)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from dissectors import values
from dissectors.embedded.locations import TopicName
from dissectors.embedded.registry import Row
from dissectors.messages.message import Message
from dissectors.values import DecodedPart, DecodedValue, Schema, SchemaKey, ValueContext
from dissectors.values.tags import EVERYTHING, tagged_names
from kproxy.inspection.masks import MASKED, Masks, without_names
from kproxy.inspection.record_data import record_data, record_fields
from kproxy.registry import SchemaSource

_PARTS = ("key", "value")
#: Topic, path of the record, record, headers.
_Context: TypeAlias = tuple[str | None, str, Row, tuple[tuple[str, bytes | None], ...]]


class DecodedRecords(NamedTuple):
    """A body with decoded records in place, and their keys and values for the rules."""

    body: Row | None
    parts: list[DecodedPart] = []  # noqa: RUF012  # never changed


class RecordValues:
    """Replaces the bytes of records in bodies by what they mean.

    Args:
        source: Where schemas come from.
        masks: What is left out.
    """

    def __init__(self, source: SchemaSource, masks: Masks) -> None:
        self._source = source
        self.masks = masks

    def decode(self, message: Message, body: Row, topic_name: TopicName) -> DecodedRecords:
        """The body, as `embedded.presentable` made it, with decoded records in place.

        Keys, values and the values of headers become objects (docs/payloads.md); null stays null, and what kproxy has
        decoded or withheld already stays. With masks, the body of a message that does not decode is left out (None), as
        masked bytes may be anywhere in it.
        """
        if not record_fields(message):
            return DecodedRecords(body)
        if self.may_mask(message) and (message.error or message.trailing or message.diagnosis):
            return DecodedRecords(None)
        contexts = [
            (topic, f"{path}[{number}].records[{index}]", record, _headers(record))
            for topic, path, batches in record_data(message, body, topic_name)
            for number, batch in enumerate(batches)
            if not batch.get("is_control")
            for index, record in enumerate(batch.get("records", ()))
        ]
        schemas = self._source.lookup(self._keys(contexts)) if contexts else {}
        parts = []
        for topic, path, record, headers in contexts:
            for part in _PARTS:
                if isinstance(data := record.get(part), bytes | memoryview):
                    context = ValueContext(topic, part == "key", headers, schemas)
                    value = values.decode(bytes(data), context)
                    schema = schemas.get(value.schema or SchemaKey("subject", value.subject or ""))
                    tagged = self._tagged(value, schema)
                    record[part] = self._shown(value, topic, part, tagged)
                    parts.append(
                        DecodedPart(
                            topic,
                            part,
                            f"{path}.{part}",
                            bytes(data),
                            self._reported(value, topic, part, tagged),
                            schema if isinstance(schema, Schema) and value.schema is not None else None,
                        )
                    )
            for header in record.get("headers", ()):
                if isinstance(data := header["value"], bytes | memoryview):
                    is_masked = self.masks.masks_header(topic, header["key"])
                    header["value"] = (
                        _masked_entry() if is_masked else entry(values.decode(bytes(data), ValueContext()))
                    )
        return DecodedRecords(body, parts)

    def may_mask(self, message: Message) -> bool:
        """Whether the message may have records of which parts are masked."""
        return bool(self.masks) and bool(record_fields(message))

    def _keys(self, contexts: list[_Context]) -> set[SchemaKey]:
        return {
            key
            for topic, _, record, headers in contexts
            for part in _PARTS
            if isinstance(data := record.get(part), bytes | memoryview)
            for key in values.schema_keys(bytes(data), ValueContext(topic, part == "key", headers))
        }

    def _tagged(self, value: DecodedValue, schema: Schema | str | None) -> Set[str]:
        """The names of fields with masked tags; of a value whose schema is not known, every field may have one."""
        if not self.masks.tags or (value.schema is None and value.subject is None):
            return frozenset()
        return tagged_names(schema, self.masks.tags) if isinstance(schema, Schema) else {EVERYTHING}

    def _shown(self, value: DecodedValue, topic: str | None, part: str, tagged: Set[str]) -> dict[str, Any]:
        if not tagged and not self.masks.applies(topic, part):
            return entry(value)
        if value.problem is not None or EVERYTHING in tagged:  # where the masked fields are is doubtful
            return _masked_entry() | ({"schema": _schema(value.schema)} if value.schema else {})
        data = self.masks.masked(value.data, topic, part)
        return entry(value) | {"data": without_names(data, tagged) if tagged else data}

    def _reported(self, value: DecodedValue, topic: str | None, part: str, tagged: Set[str]) -> DecodedValue:
        """The value as rules see it: the path in a problem may have names from inside a masked value."""
        if value.problem is None or not (tagged or self.masks.applies(topic, part)):
            return value
        return replace(value, problem=replace(value.problem, text=MASKED))


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


def _headers(record: Row) -> tuple[tuple[str, bytes | None], ...]:
    """The headers, read before their values are replaced."""
    return tuple(
        (each["key"], bytes(each["value"]) if isinstance(each["value"], bytes | memoryview) else None)
        for each in record.get("headers", ())
    )
