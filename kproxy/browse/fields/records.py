"""The records of a field, decompressed; each part as text, JSON or hex."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec

from dissectors.records.formats import TIMESTAMP_TYPE
from dissectors.records.schema_ids import PREFIX_SIZE, schema_id
from dissectors.wire.primitives import TEXT_ERRORS
from kproxy.browse.fields.field import MORE, FieldView
from kproxy.trace.encoding import encode_json
from kproxy.trace.formatting import safe

#: Number of records read by default, and of bytes shown per key or value.
MAX_RECORDS = 200
MAX_BYTES = 64 << 10

#: Maximum number of further batches whose record counts are read once enough records have been read.
_MAX_COUNTED = 200

#: Bytes per row of hex.
_WIDTH = 16


class Form(StrEnum):
    """How a key or value is shown."""

    FITS = "as it fits"
    TEXT = "text"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class RecordPart:
    """A key or value to show.

    `form` is ``null``, ``empty``, ``text``, ``json``, ``hex``, or Kafka's name for the payload; `text` may have several
    lines. `schema_id` is the id in a schema registry prefix (a 0 byte, then the id), if the bytes begin with one; text
    and JSON then show what follows the prefix. `size` is in bytes, None for values that are not bytes; `cut` is true if
    `text` is truncated.
    """

    form: str
    text: str = ""
    size: int | None = None
    schema_id: int | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """One record and its field. `timestamp` is in ms since the epoch, None or -1 if unknown."""

    field: FieldView
    batch: FieldView
    offset: int | None
    timestamp: int | None
    key: RecordPart
    value: RecordPart
    headers: tuple[tuple[str, RecordPart], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordsView:
    """The first records of a field; `more` is how many follow according to their batches, None if unknown.

    `problems` are sentences about data that could not be decoded.
    """

    records: list[Record]
    more: int | None
    problems: list[str]


def record_fields(fields: list[FieldView]) -> Iterator[FieldView]:
    """Yield the fields with record data among these fields and their descendants, in order."""
    pending = list(reversed(fields))
    while pending:
        field = pending.pop()
        if field.kind.endswith("records"):
            yield field
        elif _may_hold_records(field):
            pending += reversed(field.children)


def _may_hold_records(field: FieldView) -> bool:
    """Whether a field can contain record data: bodies, structs and arrays of structs, not payloads of other fields."""
    return (
        not field.is_leaf
        and field.value is None
        and (field.name == "body" or "struct" in field.kind or field.kind == MORE)
    )


def records(field: FieldView, max_records: int = MAX_RECORDS) -> RecordsView:
    """Read the first `max_records` records of a field with record data, and no others. Never raises."""
    records: list[Record] = []
    problems: list[str] = []
    more = counted_batches = 0
    for batch in _flatten(field.children):
        count, previous = _record_count(batch), len(records)
        records += islice(_records(batch, problems), max_records - previous)
        if len(records) == max_records:
            more += max(count - len(records) + previous, 0)
            counted_batches += 1
        if counted_batches > _MAX_COUNTED:
            return RecordsView(records, None, problems)
    return RecordsView(records, more, problems)


def _flatten(fields: list[FieldView]) -> Iterator[FieldView]:
    """Yield the fields, opening `MORE` fields."""
    while fields:
        yield from (field for field in fields if field.kind != MORE)
        fields = fields[-1].children if fields[-1].kind == MORE else []


def _child(field: FieldView, name: str) -> FieldView | None:
    return next((child for child in field.children if child.name == name), None)


def _value(field: FieldView, name: str) -> Any:
    child = _child(field, name)
    return child.value if child is not None else None


def _number(field: FieldView, name: str) -> int | None:
    value = _value(field, name)
    return value if isinstance(value, int) else None


def _record_count(batch: FieldView) -> int:
    """Return the number of records a batch declares; for messages, those in a compressed message, else 1."""
    holder = _child(batch, "records") or _child(batch, "value")
    if holder is None:
        return 0
    return 1 if holder.count is None else holder.count


def _records(batch: FieldView, problems: list[str]) -> Iterator[Record]:
    holder = _child(batch, "records")
    if holder is not None:
        for field_view in _flatten(holder.children):
            if field_view.name == "unread":
                problems.append(f"{batch.name}: {field_view.meaning}")
            else:
                yield _record(field_view, batch)
        return
    if batch.kind != "message":
        if batch.meaning:
            problems.append(f"{batch.name}: {batch.meaning}")
        return
    value = _child(batch, "value")
    if value is None:
        problems.append(f"{batch.name}: {batch.meaning}")
        return
    inner_messages = [field_view for field_view in _flatten(value.children) if field_view.name.startswith("[")]
    for field_view in inner_messages or [batch]:
        yield _record(field_view, batch)


def record_of(chain: list[FieldView], form: Form = Form.FITS) -> Record | None:
    """Return the record that the last field represents; None if it is not a record.

    Args:
        chain: The fields on the path to the record, outermost first.
        form: How its key, value and headers are shown.
    """
    field = chain[-1]
    batch = next((field_view for field_view in reversed(chain) if field_view.kind in ("record batch", "message")), None)
    if batch is None or not (field.kind == "record" or _is_message(field)):
        return None
    return _record(field, batch, form)


def _is_message(field: FieldView) -> bool:
    """Whether a field is a message of format 0 or 1 that does not contain others."""
    value = _child(field, "value")
    return (
        value is not None
        and _child(field, "crc") is not None
        and not any(child.name.startswith("[") for child in value.children)
    )


def _record(field: FieldView, batch: FieldView, form: Form = Form.FITS) -> Record:
    offset, timestamp = _number(field, "offset"), _number(field, "timestamp")
    if offset is None and (delta := _number(field, "offset_delta")) is not None:
        offset = delta + (_number(batch, "base_offset") or 0)
    elif field is not batch and (offset_field := _child(field, "offset")) is not None and offset_field.meaning:
        offset = int(offset_field.meaning.removeprefix("offset "))  # offsets in a compressed message are relative
    if timestamp is None and (delta := _number(field, "timestamp_delta")) is not None:
        timestamp = delta + (_number(batch, "base_timestamp") or 0)
    if (_number(batch, "attributes") or 0) & TIMESTAMP_TYPE:  # log append time applies to the whole batch
        timestamp = _number(batch, "max_timestamp" if field.kind == "record" else "timestamp")
    headers = _child(field, "headers")
    pairs = tuple(
        (str(_value(child, "key")), part(_child(child, "value"), form))
        for child in (headers.children if headers else ())
    )
    key, value = (part(_child(field, name), form) for name in ("key", "value"))
    return Record(field, batch, offset, timestamp, key, value, pairs)


def part(field: FieldView | None, form: Form = Form.FITS) -> RecordPart:
    """Return a field's value in the given form. `Form.FITS` selects indented JSON, other text, or hex with ASCII."""
    if field is None:
        return RecordPart("null")
    if field.decoded is not None:
        if field.value is None or (form is Form.FITS and field.decoded["format"] != "bytes"):
            return _decoded_part(field)
    elif not field.is_leaf and field.meaning and form is Form.FITS:
        return _payload_part(field)
    value = field.value
    if value is None:
        return RecordPart("null")
    if isinstance(value, str):
        if form is not Form.HEX:
            return RecordPart("text", value[:MAX_BYTES], cut=len(value) > MAX_BYTES)
        value = value.encode("utf-8", TEXT_ERRORS)  # the bytes on the wire
    data = bytes(value)
    if not data:
        return RecordPart("empty", size=0)
    if form is not Form.FITS:
        visible, cut = data[:MAX_BYTES], len(data) > MAX_BYTES
        return RecordPart(
            form.value,
            _hex_rows(visible) if form is Form.HEX else visible.decode("utf-8", "replace"),
            len(data),
            None,
            cut,
        )
    size, schema, visible = len(data), schema_id(data), data
    if schema is not None:
        visible = data[PREFIX_SIZE:]
    cut, visible = len(visible) > MAX_BYTES, visible[:MAX_BYTES]
    if not cut and (as_json := _indented_json(visible)) is not None:
        return RecordPart("json", as_json, size, schema)
    if (text := _decode_text(visible, cut=cut)) is not None:
        return RecordPart("text", text, size, schema, cut)
    return RecordPart("hex", _hex_rows(data[:MAX_BYTES]), size, schema, cut)


def _decoded_part(field: FieldView) -> RecordPart:
    """Return a decoded key, value or header: text unchanged, other data as JSON."""
    assert field.decoded is not None
    data = field.decoded["data"]
    text = data if isinstance(data, str) else msgspec.json.format(encode_json(data), indent=2).decode()
    if not _is_plain(text):
        text = "\n".join(map(safe, text.splitlines()))
    size = len(field.value) if isinstance(field.value, bytes) else None
    return RecordPart(field.meaning or "", text[:MAX_BYTES], size, cut=len(text) > MAX_BYTES)


def _payload_part(field: FieldView) -> RecordPart:
    """Return a payload that Kafka defines (internal topics, control records) as JSON."""
    size = len(field.value) if isinstance(field.value, bytes) else None
    text = msgspec.json.format(encode_json(_plain_value(field, 0)), indent=2).decode()
    return RecordPart(field.meaning or "", text, size)


def _plain_value(field: FieldView, depth: int) -> Any:
    if field.is_leaf or depth > 20:
        return field.value
    children = list(_flatten(field.children))
    if field.count is not None and field.kind != "tag buffer":
        return [_plain_value(child, depth + 1) for child in children]
    return {child.name: _plain_value(child, depth + 1) for child in children}


def _indented_json(data: bytes) -> str | None:
    """Return an object or array as indented JSON; None for anything else, including a single number or string."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        text = msgspec.json.format(data, indent=2).decode()  # keeps numbers and duplicate keys unchanged
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return text if _is_plain(text) else None


def _decode_text(data: bytes, *, cut: bool) -> str | None:
    """Decode UTF-8; None if the bytes are invalid or contain control characters."""
    try:
        text = data.decode("utf-8", "ignore" if cut else "strict")
    except UnicodeDecodeError:
        return None
    return text if _is_plain(text) else None


def _is_plain(text: str) -> bool:
    """Whether the text contains nothing that a terminal would interpret."""
    return text.isprintable() or all(c.isprintable() or c in "\n\r\t" for c in text)


def _hex_rows(data: bytes) -> str:
    """Return rows of offset, hex bytes and ASCII."""
    rows = []
    for offset in range(0, len(data), _WIDTH):
        row = data[offset : offset + _WIDTH]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        rows.append(f"{offset:04x}  {row.hex(' '):<{_WIDTH * 3 - 1}}  {text}")
    return "\n".join(rows)
