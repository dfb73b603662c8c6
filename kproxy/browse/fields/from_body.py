"""The fields of a frame without bytes, from its decoded body or the facts of its line; they have no spans."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from dissectors.messages import value_annotations
from dissectors.wire.layout import Field as WireField
from dissectors.wire.layout import Layout
from dissectors.wire.paths import parts
from kproxy.browse.fields.decoded_values import decoded_field
from kproxy.browse.fields.field import FieldView
from kproxy.browse.fields.kinds import kind_of, kind_of_element
from kproxy.trace.encoding import as_mapping
from kproxy.trace.lines import RequestLine, ResponseLine
from kproxy.trace.record_values import is_decoded

#: Keys of a line that are not facts of its frame, or are shown elsewhere.
_NOT_FACTS = frozenset({"v", "kind", "ts", "connection_id", "findings", "body", "frame", "not_decoded"})

#: Record fields with bytes, base64-encoded in JSON.
_BYTES_IN_RECORDS = frozenset({"key", "value"})


def facts(line: RequestLine | ResponseLine) -> list[FieldView]:
    """Return the summary facts of a line without a body."""
    return list(
        _struct_fields(
            {name: value for name, value in as_mapping(line).items() if name not in _NOT_FACTS}, None, "", ""
        )
    )


def body_fields(body: Mapping[str, Any], layout: Layout | None, owner: str) -> Iterator[FieldView]:
    """Yield the fields of a body as in the trace; `layout`, if known, supplies their wire types."""
    return _struct_fields(body, layout, "", owner)


def fields_at(body: Mapping[str, Any] | None, path: str) -> Iterator[FieldView]:
    """Yield the fields of the record data at a path; none if the data was withheld."""
    value: Any = body
    for name in parts(path):
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (LookupError, TypeError, ValueError):
            return
    if isinstance(value, list):
        yield from _batches(value, path)


def _struct_fields(values: Mapping[str, Any], layout: Layout | None, path: str, owner: str) -> Iterator[FieldView]:
    fields_by_name = {field.name: field for field in (*layout.fields, *layout.tagged)} if layout else {}
    for name, value in values.items():
        yield _field(name, f"{path}.{name}" if path else name, value, fields_by_name.get(name), owner)


def _field(name: str, path: str, value: Any, wire: WireField | None, owner: str) -> FieldView:
    kind = kind_of(wire)
    if isinstance(value, list):
        if wire is not None and wire.type == "records":
            return FieldView(name, path, kind=kind, count=len(value), produce=partial(_batches, value, path))
        meaning = value_annotations.meaning(owner, (name,), value) if not value else None
        produce = partial(_elements, value, path, wire, owner)
        return FieldView(name, path, kind=kind, meaning=meaning, count=len(value), produce=produce)
    if isinstance(value, Mapping):
        if is_decoded(value):
            return decoded_field(name, path, value, kind=kind)
        if "type" in value and "data" in value:  # a payload: dissectors.embedded
            return FieldView(name, path, kind=kind, meaning=str(value["type"]),
                         produce=partial(_struct_fields, value, None, path, str(value["type"])))  # fmt: skip
        return FieldView(
            name, path, kind=kind, produce=partial(_struct_fields, value, wire.struct if wire else None, path, owner)
        )
    if wire is not None and wire.type == "bytes":
        value = _decode_base64(value)
    return FieldView(name, path, value=value, kind=kind, meaning=value_annotations.meaning(owner, (name,), value))


def _elements(values: list[Any], path: str, wire: WireField | None, owner: str) -> Iterator[FieldView]:
    kind, layout = kind_of_element(wire), wire.struct if wire else None
    for index, value in enumerate(values):
        name = f"[{index}]"
        if isinstance(value, Mapping):
            yield FieldView(
                name, path + name, kind=kind, produce=partial(_struct_fields, value, layout, path + name, owner)
            )
        else:
            field = _field(name, path + name, value, None, owner)
            field.kind = kind
            yield field


def _batches(batches: list[Any], path: str) -> Iterator[FieldView]:
    for index, batch in enumerate(batches):
        name = f"[{index}]"
        if isinstance(batch, Mapping):
            produce = partial(_batch_fields, batch, path + name)
            yield FieldView(name, path + name, kind="record batch", meaning=batch.get("error"), produce=produce)


def _batch_fields(batch: Mapping[str, Any], path: str) -> Iterator[FieldView]:
    for name, value in batch.items():
        field_path = f"{path}.{name}"
        if name == "records" and isinstance(value, list):
            produce = partial(_records, value, field_path)
            yield FieldView(name, field_path, kind="array of record", count=len(value), produce=produce)
        else:
            yield _field(name, field_path, value, None, "")


def _records(records: list[Any], path: str) -> Iterator[FieldView]:
    for index, record in enumerate(records):
        name = f"[{index}]"
        if isinstance(record, Mapping):
            offset = record.get("offset")
            meaning = None if offset is None else f"offset {offset}"
            produce = partial(_record_fields, record, path + name)
            yield FieldView(name, path + name, kind="record", meaning=meaning, produce=produce)


def _record_fields(record: Mapping[str, Any], path: str) -> Iterator[FieldView]:
    for name, value in record.items():
        field_path = f"{path}.{name}"
        if name == "headers" and isinstance(value, list):
            produce = partial(_headers, value, field_path)
            yield FieldView(name, field_path, kind="array of header", count=len(value), produce=produce)
        else:
            yield _field(name, field_path, _decode_base64(value) if name in _BYTES_IN_RECORDS else value, None, "")


def _headers(headers: list[Any], path: str) -> Iterator[FieldView]:
    for index, header in enumerate(headers):
        header_path = f"{path}[{index}]"
        if isinstance(header, Mapping):
            decoded = {name: _decode_base64(value) if name == "value" else value for name, value in header.items()}
            produce = partial(_struct_fields, decoded, None, header_path, "")
            yield FieldView(f"[{index}]", header_path, produce=produce)


def _decode_base64(value: Any) -> Any:
    """Decode base64 to bytes; return other values, e.g. ``(redacted, 32 bytes)``, unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return value
