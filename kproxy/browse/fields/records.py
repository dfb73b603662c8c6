"""The records of a field of record data, decompressed, each part as text, JSON or hex: which fits, or was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec

from dissectors.records.formats import TIMESTAMP_TYPE
from dissectors.records.schema_ids import PREFIX, schema_id
from dissectors.wire.primitives import TEXT_ERRORS
from kproxy.browse.fields.field import MORE, FieldView
from kproxy.trace.encoding import encode_json

#: Records that are read if nobody says otherwise, and bytes of one key or value that are shown.
MOST = 200
MOST_BYTES = 64 << 10

#: Batches that are asked how many records they have, beyond those whose records are read.
_MOST_ASKED = 200

#: Bytes of hex in a row.
_WIDTH = 16


class Form(StrEnum):
    """How a key or value is to be shown."""

    FITS = "as it fits"
    TEXT = "text"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class RecordPart:
    """A key or value to show.

    `form` is ``null``, ``empty``, ``text``, ``json``, ``hex``, or Kafka's name of the payload that it is; `text` may
    have several lines. `schema_id` is that of a schema registry, if the bytes begin like that (0, then the id): text
    and JSON are what follows. `size` are all its bytes, None of what is no bytes; `cut` says that not all are shown.
    """

    form: str
    text: str = ""
    size: int | None = None
    schema_id: int | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """One record; `field` is where it stands. `timestamp` is in ms since the epoch, None or -1 if there is none."""

    field: FieldView
    batch: FieldView
    offset: int | None
    timestamp: int | None
    key: RecordPart
    value: RecordPart
    headers: tuple[tuple[str, RecordPart], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordsView:
    """The first records of a field: `more` follow, as their batches say; None if nobody knows how many.

    `problems` are sentences about what could not be read.
    """

    records: list[Record]
    more: int | None
    problems: list[str]


def record_fields(fields: list[FieldView]) -> Iterator[FieldView]:
    """The fields with record data below these, in their order."""
    waiting = list(reversed(fields))
    while waiting:
        field = waiting.pop()
        if field.kind.endswith("records"):
            yield field
        elif _may_hold_records(field):
            waiting += reversed(field.children)


def _may_hold_records(field: FieldView) -> bool:
    """Bodies, structs and arrays of structs; the payloads of other fields hold none."""
    return (
        not field.is_leaf
        and field.value is None
        and (field.name == "body" or "struct" in field.kind or field.kind == MORE)
    )


def records(field: FieldView, most: int = MOST) -> RecordsView:
    """Read the first `most` records of a field with record data. Never raises, and reads no further than that."""
    found: list[Record] = []
    problems: list[str] = []
    more = asked = 0
    for batch in _through(field.children):
        count, taken = _count(batch), len(found)
        found += islice(_records(batch, problems), most - taken)
        if len(found) == most:
            more += max(count - len(found) + taken, 0)
            asked += 1
        if asked > _MOST_ASKED:
            return RecordsView(found, None, problems)
    return RecordsView(found, more, problems)


def _through(fields: list[FieldView]) -> Iterator[FieldView]:
    """The fields, and those that follow."""
    while fields:
        yield from (each for each in fields if each.kind != MORE)
        fields = fields[-1].children if fields[-1].kind == MORE else []


def _child(field: FieldView, name: str) -> FieldView | None:
    return next((each for each in field.children if each.name == name), None)


def _value(field: FieldView, name: str) -> Any:
    child = _child(field, name)
    return child.value if child is not None else None


def _number(field: FieldView, name: str) -> int | None:
    value = _value(field, name)
    return value if isinstance(value, int) else None


def _count(batch: FieldView) -> int:
    """Records that a batch says to have; those in a message that wraps others, else one."""
    holder = _child(batch, "records") or _child(batch, "value")
    if holder is None:
        return 0
    return 1 if holder.count is None else holder.count


def _records(batch: FieldView, problems: list[str]) -> Iterator[Record]:
    holder = _child(batch, "records")
    if holder is not None:
        for each in _through(holder.children):
            if each.name == "unread":
                problems.append(f"{batch.name}: {each.meaning}")
            else:
                yield _record(each, batch)
        return
    if batch.kind != "message":
        if batch.meaning:
            problems.append(f"{batch.name}: {batch.meaning}")
        return
    value = _child(batch, "value")
    if value is None:
        problems.append(f"{batch.name}: {batch.meaning}")
        return
    inside = [each for each in _through(value.children) if each.name.startswith("[")]
    for each in inside or [batch]:
        yield _record(each, batch)


def record_of(way: list[FieldView], form: Form = Form.FITS) -> Record | None:
    """The record that the last field is; None if it is none.

    Args:
        way: The fields on the way to it, outermost first.
        form: How its parts are to be shown.
    """
    field = way[-1]
    batch = next((each for each in reversed(way) if each.kind in ("record batch", "message")), None)
    if batch is None or not (field.kind == "record" or _is_message(field)):
        return None
    return _record(field, batch, form)


def _is_message(field: FieldView) -> bool:
    """Whether it is a record of format 0 or 1, not one that wraps others."""
    value = _child(field, "value")
    return (
        value is not None
        and _child(field, "crc") is not None
        and not any(each.name.startswith("[") for each in value.children)
    )


def _record(field: FieldView, batch: FieldView, form: Form = Form.FITS) -> Record:
    offset, timestamp = _number(field, "offset"), _number(field, "timestamp")
    if offset is None and (delta := _number(field, "offset_delta")) is not None:
        offset = delta + (_number(batch, "base_offset") or 0)
    elif field is not batch and (told := _child(field, "offset")) is not None and told.meaning:
        offset = int(told.meaning.removeprefix("offset "))  # in a message that wraps others they are relative
    if timestamp is None and (delta := _number(field, "timestamp_delta")) is not None:
        timestamp = delta + (_number(batch, "base_timestamp") or 0)
    if (_number(batch, "attributes") or 0) & TIMESTAMP_TYPE:  # the broker's time stands for all of the batch
        timestamp = _number(batch, "max_timestamp" if field.kind == "record" else "timestamp")
    headers = _child(field, "headers")
    pairs = tuple(
        (str(_value(each, "key")), part(_child(each, "value"), form)) for each in (headers.children if headers else ())
    )
    key, value = (part(_child(field, name), form) for name in ("key", "value"))
    return Record(field, batch, offset, timestamp, key, value, pairs)


def part(field: FieldView | None, form: Form = Form.FITS) -> RecordPart:
    """A field's bytes or text in a form; what fits is JSON with its indentation, other text, else hex with the text."""
    if field is None:
        return RecordPart("null")
    if not field.is_leaf and field.meaning and form is Form.FITS:
        return _payload(field)
    value = field.value
    if value is None:
        return RecordPart("null")
    if isinstance(value, str):
        if form is not Form.HEX:
            return RecordPart("text", value[:MOST_BYTES], cut=len(value) > MOST_BYTES)
        value = value.encode("utf-8", TEXT_ERRORS)  # as it was on the wire
    data = bytes(value)
    if not data:
        return RecordPart("empty", size=0)
    if form is not Form.FITS:
        shown, cut = data[:MOST_BYTES], len(data) > MOST_BYTES
        return RecordPart(
            form.value, _hex(shown) if form is Form.HEX else shown.decode("utf-8", "replace"), len(data), None, cut
        )
    size, schema, shown = len(data), schema_id(data), data
    if schema is not None:
        shown = data[PREFIX:]
    cut, shown = len(shown) > MOST_BYTES, shown[:MOST_BYTES]
    if not cut and (said := _json(shown)) is not None:
        return RecordPart("json", said, size, schema)
    if (text := _text(shown, cut=cut)) is not None:
        return RecordPart("text", text, size, schema, cut)
    return RecordPart("hex", _hex(data[:MOST_BYTES]), size, schema, cut)


def _payload(field: FieldView) -> RecordPart:
    """A payload that the protocol knows (coordinators' topics, control records), as JSON."""
    size = len(field.value) if isinstance(field.value, bytes) else None
    return RecordPart(field.meaning or "", msgspec.json.format(encode_json(_plain(field, 0)), indent=2).decode(), size)


def _plain(field: FieldView, depth: int) -> Any:
    if field.is_leaf or depth > 20:
        return field.value
    children = list(_through(field.children))
    if field.count is not None and field.kind != "tag buffer":
        return [_plain(each, depth + 1) for each in children]
    return {each.name: _plain(each, depth + 1) for each in children}


def _json(data: bytes) -> str | None:
    """An object or array, indented; None of anything else, also of a lone number or text, which is better as it is."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        text = msgspec.json.format(data, indent=2).decode()  # which leaves numbers and doubled keys as they are
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return text if _is_plain(text) else None


def _text(data: bytes, *, cut: bool) -> str | None:
    """The bytes as UTF-8, None if they are not what people write."""
    try:
        text = data.decode("utf-8", "ignore" if cut else "strict")
    except UnicodeDecodeError:
        return None
    return text if _is_plain(text) else None


def _is_plain(text: str) -> bool:
    """Whether it has nothing that a terminal would act on."""
    return text.isprintable() or all(c.isprintable() or c in "\n\r\t" for c in text)


def _hex(data: bytes) -> str:
    """Rows of an offset, bytes and characters."""
    rows = []
    for at in range(0, len(data), _WIDTH):
        row = data[at : at + _WIDTH]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        rows.append(f"{at:04x}  {row.hex(' '):<{_WIDTH * 3 - 1}}  {text}")
    return "\n".join(rows)
