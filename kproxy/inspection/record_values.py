"""Decodes the keys, values and headers of the records in a body (`--payloads`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dissectors import values
from dissectors.embedded.locations import TopicName
from dissectors.embedded.record_data import RecordField, record_data, record_field_names
from dissectors.embedded.registry import Row
from dissectors.embedded.values import drop_last_records
from dissectors.messages.message import Message
from dissectors.records.allowance import Allowance
from dissectors.values import DecodedPart, DecodedValue, ProblemKind, Schema, SchemaKey, ValueContext, WrittenRecord
from dissectors.values.cloud_events import is_attribute
from dissectors.values.schemas_topic import is_schemas_topic
from dissectors.values.tags import EVERYTHING, tagged_names
from kproxy.inspection.masks import Masks, without_names
from kproxy.inspection.withheld_records import leave_out_reasons
from kproxy.registry import SchemaSource, SchemaSources
from kproxy.registry.observed_schemas import ObservedSchemas
from kproxy.trace.record_values import MASKED

if TYPE_CHECKING:
    from kproxy.inspection.text_masks import TextMasks

_PARTS = ("key", "value")
#: The steps to decode a key, value or header, and the bytes in it that cost another (`dissectors.records.allowance`).
_STEPS_PER_PART: Final = 28
_BYTES_PER_STEP: Final = 16
#: Formats whose `type` is one of a few words, or comes from a schema. In others, it comes from the value itself.
_TYPE_IS_FIXED = frozenset({"avro", "protobuf", "json-schema", "debezium", "connect", "mirror-maker", "kafka-streams"})


_NO_SCHEMA: Final = frozenset({ProblemKind.NO_SCHEMA, ProblemKind.NOT_REGISTERED, ProblemKind.NOT_LISTED})
#: Why a whole value is masked. It omits the schema's id: what seems to be an id may be part of the value.
_UNKNOWN_SCHEMA: Final = "its schema is not known, so all of it is masked"


class _Record(NamedTuple):
    """A record, its batch, and its row in the batch, whose values are replaced."""

    batch: Row
    row: Row
    written: WrittenRecord
    is_control: bool

    def part(self, name: str) -> bytes | None:
        return self.written.key if name == "key" else self.written.value

    @property
    def is_whole(self) -> bool:
        """Whether `written` has everything that the row has; kproxy may have decoded or withheld a part."""
        key, value = self.row.get("key"), self.row.get("value")
        return (key is None or self.written.key is not None) and (value is None or self.written.value is not None)


class DecodedRecords(NamedTuple):
    """A body with decoded records in place, and their keys and values for the rules."""

    body: Row | None
    parts: list[DecodedPart] = []  # noqa: RUF012  # never changed


class RecordValues:
    """Replaces the bytes of records in bodies with what they mean. It also uses schemas in the traffic itself.

    Args:
        source: Where schemas come from.
        masks: What to mask.
    """

    def __init__(self, source: SchemaSource, masks: Masks) -> None:
        self._observed = ObservedSchemas()
        self._source = SchemaSources([self._observed, source])
        self.masks = masks

    def decode(
        self, message: Message, body: Row, topic_name: TopicName, allowance: Allowance | None = None
    ) -> DecodedRecords:
        """Return the body, as `embedded.presentable_body` made it, with decoded records in place.

        Keys, values and the values of headers become objects (docs/payloads.md); null stays null, and what kproxy has
        already decoded or withheld stays. With masks, the body of a message that does not decode is left out (None), as
        masked bytes may be anywhere in it. Once the `allowance` is spent, the remaining records are left out.
        """
        if not record_field_names(message):
            return DecodedRecords(body)
        if self.may_mask(message) and _is_damaged(message):
            return DecodedRecords(None)
        records = [
            record for field in record_data(message, body, topic_name) for record in self._records(message, field)
        ]
        for record in records:
            topic = record.written.topic
            if is_schemas_topic(topic) and not self.masks.masks_part(topic, "value"):
                self._observed.observe(*(record.part(name) for name in _PARTS))
        schemas = self._source.lookup(_schema_keys(records)) if records else {}
        parts: list[DecodedPart] = []
        if allowance is not None:
            allowance.release(len(records))
        for index, record in enumerate(records):
            if allowance is not None:
                if allowance.is_spent:
                    _remove_records(records[index:])
                    break
                allowance.charge(_cost(record))
            for part in self._replace(record, schemas):
                if allowance is not None and part.schema is not None:
                    # With a schema, a byte takes about a microsecond, and even a few bytes can take many steps.
                    allowance.charge(len(part.data) + part.value.steps)
                parts.append(part)
        return DecodedRecords(body, parts)

    def _records(self, message: Message, field: RecordField) -> Iterator[_Record]:
        for number, batch in enumerate(field.batches):
            base_offset = batch.get("base_offset", 0) if message.is_request else 0
            for index, row in enumerate(batch.get("records", ())):
                written_record = WrittenRecord(
                    field.topic,
                    field.partition,
                    f"{field.path}[{number}].records[{index}]",
                    row.get("offset", -1) - base_offset,
                    batch.get("magic", -1),
                    row.get("timestamp", -1),
                    batch.get("timestamp_type") == "LogAppendTime",
                    _bytes_or_none(row.get("key")),
                    _bytes_or_none(row.get("value")),
                    _headers(row),
                    bool(self.masks),
                )
                yield _Record(batch, row, written_record, bool(batch.get("is_control")))

    def _replace(self, record: _Record, schemas: Mapping[SchemaKey, Schema | str]) -> Iterator[DecodedPart]:
        """Replace key, value and headers of a record with objects; yield its key and its value."""
        _, row, written_record, is_control = record
        topic, headers = written_record.topic, self._mask_attributes(written_record)
        whole_record = written_record if record.is_whole and not is_control else None
        hides_schema = self._hides_schema(written_record)
        if self.masks:
            leave_out_reasons(row)
        for part in _PARTS:
            if (data := record.part(part)) is not None:
                value = values.decode(data, ValueContext(topic, part == "key", headers, schemas))
                masked = self._mask_value(value, topic, part, schemas)
                is_masked, is_known = masked is not value, isinstance(self._schema_of(value, schemas), Schema)
                if is_masked:
                    masked = masked and _without_type(masked)
                if hides_schema:
                    value, masked = _without_schema(value), masked and _without_schema(masked)
                shown_value = value if is_known else None
                is_undecided = not self.masks.masks_part(topic, part) and _has_no_schema(value)
                if masked is None:
                    row[part] = _masked_entry(shown_value, _UNKNOWN_SCHEMA if is_undecided else None)
                else:
                    row[part] = self._entry(masked, shown_value)
                if is_control:
                    continue
                reported_value = self._reported_value(value.with_schema(part), is_masked=is_masked)
                schema = None if reported_value.schema is None else schemas.get(reported_value.schema)
                known_schema = schema if isinstance(schema, Schema) else None
                yield DecodedPart(
                    topic, part, f"{written_record.path}.{part}", data, reported_value, known_schema, whole_record
                )
            elif self.masks and isinstance(row.get(part), dict) and not is_control:
                row[part] = self._masked_payload(row[part], topic, part)
        if whole_record is not None and whole_record.key is None and whole_record.value is None:
            yield DecodedPart(
                topic,
                "value",
                f"{written_record.path}.value",
                b"",
                values.decode(None, ValueContext()),
                None,
                whole_record,
            )
        for header in row.get("headers", ()):
            if (data := _bytes_or_none(header["value"])) is not None:
                is_masked = self.masks.masks_header(topic, header["key"])
                header["value"] = _masked_entry() if is_masked else self._entry(values.decode(data, ValueContext()))
            if self.masks.text_masks is not None:
                header["key"] = self.masks.text_masks.mask_text(header["key"])

    def _masked_payload(self, payload: Row, topic: str | None, part: str) -> Row:
        """Return a payload that kproxy decodes even without `--payloads`, without its masked parts."""
        if self.masks.masks_part(topic, part):
            return _masked_entry()
        if self.masks.applies(topic, part):
            payload = {name: content for name, content in payload.items() if name != "rest"}
            payload["data"] = self.masks.masked(payload["data"], topic, part)
        row: Row = payload if self.masks.text_masks is None else self.masks.text_masks.mask_tree(payload)
        return row

    def _hides_schema(self, record: WrittenRecord) -> bool:
        """Whether a masked header may name the schema."""
        return any(
            name.startswith(_SCHEMA_HEADER_PREFIXES) and self.masks.masks_header(record.topic, name)
            for name, _ in record.headers
        )

    def _mask_attributes(self, record: WrittenRecord) -> tuple[tuple[str, bytes | None], ...]:
        """Return the headers; masked ones that become part of a decoded value have the value `MASKED`."""
        if not self.masks:
            return record.headers
        return tuple(
            (name, MASKED.encode() if is_attribute(name) and self.masks.masks_header(record.topic, name) else value)
            for name, value in record.headers
        )

    def may_mask(self, message: Message) -> bool:
        """Whether the message may have records with masked parts; a damaged message may have them anywhere."""
        return bool(self.masks and (record_field_names(message) or _is_damaged(message)))

    def _tagged_fields(self, value: DecodedValue, schemas: Mapping[SchemaKey, Schema | str]) -> Set[str]:
        """Return the names of fields with masked tags; if the schema is not known, every field may have one."""
        if not self.masks.tags or (value.schema is None and value.subject is None):
            return frozenset()
        schema = self._schema_of(value, schemas)
        return tagged_names(schema, self.masks.tags) if isinstance(schema, Schema) else {EVERYTHING}

    @staticmethod
    def _schema_of(value: DecodedValue, schemas: Mapping[SchemaKey, Schema | str]) -> Schema | str | None:
        return schemas.get(value.schema or SchemaKey("subject", value.subject or ""))

    def _mask_value(
        self, value: DecodedValue, topic: str | None, part: str, schemas: Mapping[SchemaKey, Schema | str]
    ) -> DecodedValue | None:
        """Return the value without what paths and tags mask: itself if they mask nothing, None if they mask all."""
        tagged = self._tagged_fields(value, schemas)
        data = value.data
        for inner_value in value.inner:
            if inner_value.name in value.data:  # otherwise it is cut off
                inside = replace(inner_value.value, data=value.data[inner_value.name])
                masked = self._mask_value(inside, topic, inner_value.part, schemas)
                if masked is not inside:
                    data = data | {inner_value.name: MASKED if masked is None else masked.data}
        if data is value.data and not tagged and not self.masks.applies(topic, part):
            return value
        if value.problem is not None or EVERYTHING in tagged or self.masks.masks_part(topic, part):
            return None  # after a problem, it is doubtful where the masked fields are
        data = self.masks.masked(data, topic, part)
        return replace(value, data=without_names(data, tagged) if tagged else data)

    def _entry(self, value: DecodedValue, shown_value: DecodedValue | None = None) -> dict[str, Any]:
        """Return the object for a value, with its text masked. Undecodable data may contain any text in any form."""
        text_masks = self.masks.text_masks
        if text_masks is None:
            return entry(value)
        if value.problem is not None:
            return _masked_entry(shown_value, _UNKNOWN_SCHEMA if _has_no_schema(value) else None)
        return entry(replace(_mask_names(value, text_masks), data=text_masks.mask_tree(value.data)))

    def _reported_value(self, value: DecodedValue, *, is_masked: bool) -> DecodedValue:
        """Return the value as rules see it: the path in a problem may contain names from inside a masked value."""
        problem, text_masks = value.problem, self.masks.text_masks
        if is_masked:
            value = _without_type(value)
        if text_masks is not None:
            value = _mask_names(value, text_masks)
        if problem is None or not (is_masked or text_masks is not None):
            return value
        return replace(value, problem=replace(problem, text=MASKED))


#: Prefixes of the headers that name schemas (`dissectors.values.envelope`).
_SCHEMA_HEADER_PREFIXES = ("__key_schema_id", "__value_schema_id", "apicurio.", "content-type")


def _without_type(value: DecodedValue) -> DecodedValue:
    """Return the value without a type that comes from its content."""
    return value if value.format in _TYPE_IS_FIXED else replace(value, type=None)


def _mask_names(value: DecodedValue, text_masks: TextMasks) -> DecodedValue:
    return replace(
        value,
        type=value.type and text_masks.mask_text(value.type),
        subject=value.subject and text_masks.mask_text(value.subject),
    )


def _without_schema(value: DecodedValue) -> DecodedValue:
    problem = value.problem and replace(value.problem, text=MASKED)
    return replace(value, schema=None, subject=None, problem=problem)


def entry(value: DecodedValue) -> dict[str, Any]:
    """Return a value as an object in a trace, without attributes that are false or unknown."""
    fields: dict[str, Any] = {"format": value.format, "data": value.data}
    if value.is_guess:
        fields["guess"] = True
    if value.schema is not None:
        fields["schema"] = _schema_entry(value.schema)
    for name in ("subject", "type", "reencoding"):
        if (attribute := getattr(value, name)) is not None:
            fields[name] = attribute
    if value.problem is not None:
        fields["problem"] = value.problem.text
        if value.problem.offset is not None:
            fields["offset"] = value.problem.offset
    if value.is_cut:
        fields["cut"] = True
    return fields


def _cost(record: _Record) -> int:
    """Return the steps that decoding the key, value and headers of a record takes."""
    written_record = record.written
    parts = [
        data
        for data in (written_record.key, written_record.value, *(value for _, value in written_record.headers))
        if data is not None
    ]
    return _STEPS_PER_PART * len(parts) + sum(map(len, parts)) // _BYTES_PER_STEP


def _remove_records(records: Sequence[_Record]) -> None:
    """Remove records from their batches; they are the last ones of each batch."""
    counts: dict[int, tuple[Row, int]] = {}
    for record in records:
        _, count_before = counts.get(id(record.batch), (None, 0))
        counts[id(record.batch)] = record.batch, count_before + 1
    for batch, count in counts.values():
        drop_last_records(batch, count)


def _is_damaged(message: Message) -> bool:
    return bool(message.error or message.trailing or message.opaque or message.diagnosis)


def _schema_entry(key: SchemaKey) -> dict[str, int | str]:
    return {key.form: key.value}


def _masked_entry(value: DecodedValue | None = None, reason: str | None = None) -> dict[str, Any]:
    schema = {} if value is None or value.schema is None else {"schema": _schema_entry(value.schema)}
    return {"format": MASKED, "data": MASKED, **schema, **({} if reason is None else {"problem": reason})}


def _has_no_schema(value: DecodedValue) -> bool:
    return value.problem is not None and value.problem.kind in _NO_SCHEMA


def _schema_keys(records: Iterable[_Record]) -> set[SchemaKey]:
    return {
        key
        for record in records
        for part in _PARTS
        if (data := record.part(part)) is not None
        for key in values.schema_keys(data, ValueContext(record.written.topic, part == "key", record.written.headers))
    }


def _bytes_or_none(value: Any) -> bytes | None:
    return bytes(value) if isinstance(value, bytes | memoryview) else None


def _headers(record: Row) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers. Call this before their values are replaced."""
    return tuple((header["key"], _bytes_or_none(header["value"])) for header in record.get("headers", ()))
