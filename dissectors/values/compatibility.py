"""Check whether a program with one schema can read data written with another.

For JSON Schema, only properties that became required or changed their type are detected. Anything not compared counts
as compatible.

Source: Protobuf's "Updating A Message Type".
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from dissectors.values.avro_compatibility import incompatibility
from dissectors.values.avro_schema import parse
from dissectors.values.errors import SchemaError, cached_parser
from dissectors.values.value import Schema

_MAX_NESTED = 64
_parse = cached_parser(parse)


def conflict(*, reader: Schema, writer: Schema) -> str | None:
    """Return why a program with the schema `reader` cannot read data written with the schema `writer`.

    Returns:
        A clause, e.g. ``id: the reader has long, the writer string``. None if it can read the data, if the schemas
        describe different records, which may share a topic, or if one of the schemas cannot be used.
    """
    if reader.type != writer.type:
        return f"it was {writer.type} and is {reader.type}"
    try:
        return next(_CONFLICTS[reader.type](reader, writer), None) if reader.type in _CONFLICTS else None
    except (SchemaError, RecursionError, ImportError):
        return None


def _avro_conflicts(reader: Schema, writer: Schema) -> Iterator[str]:
    reader_type, writer_type = _parse(reader), _parse(writer)
    is_different_record = reader_type.kind == writer_type.kind and reader_type.name != writer_type.name
    if not is_different_record and (text := incompatibility(reader_type, writer_type)) is not None:
        yield text


def _protobuf_conflicts(reader: Schema, writer: Schema) -> Iterator[str]:
    protobuf = importlib.import_module("dissectors.values.protobuf")
    reader_messages, writer_messages = protobuf.messages(reader), protobuf.messages(writer)
    for name in reader_messages.keys() & writer_messages.keys():
        writer_fields = {field.number: field for field in writer_messages[name].fields}
        for field in reader_messages[name].fields:
            writer_field = writer_fields.get(field.number)
            if writer_field is not None and _wire_type(field) != _wire_type(writer_field):
                yield f"field {field.number} of {name} was {_type_name(writer_field)} and is {_type_name(field)}"
            elif writer_field is None and field.is_required:
                yield f"field {field.number} of {name} is new and required"


#: Field types (FieldDescriptor.TYPE_*) with the same encoding: varints, zigzag, fixed, length-delimited.
_SAME_WIRE_TYPES: Final = ({3, 4, 5, 8, 13, 14}, {17, 18}, {7, 15}, {6, 16}, {9, 12})
_TYPES: Final = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message",
    "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip


def _wire_type(field: Any) -> int:
    return min(next((types for types in _SAME_WIRE_TYPES if field.type in types), {cast("int", field.type)}))


def _type_name(field: Any) -> str:
    return _TYPES[field.type]


def _json_conflicts(reader: Schema, writer: Schema) -> Iterator[str]:
    try:
        yield from _property_conflicts(json.loads(reader.text), json.loads(writer.text), "", 0)
    except ValueError:
        return


def _property_conflicts(new: Any, old: Any, path: str, depth: int) -> Iterator[str]:
    if not isinstance(new, dict) or not isinstance(old, dict) or depth > _MAX_NESTED:
        return
    lost_types = _types(old) - _types(new)
    if _types(new) and lost_types and not (lost_types == {"integer"} and "number" in _types(new)):
        yield f"{path or 'the value'} was {min(lost_types)} and is {min(_types(new))}"
        return
    old_properties, new_properties = (
        schema["properties"] if isinstance(schema.get("properties"), dict) else {} for schema in (old, new)
    )
    old_required = old.get("required")
    for name in new["required"] if isinstance(new.get("required"), list) else ():
        if isinstance(name, str) and name not in (old_required if isinstance(old_required, list) else ()):
            yield f"{path}.{name} became required".lstrip(".")
    for name in new_properties.keys() & old_properties.keys():
        yield from _property_conflicts(
            new_properties[name], old_properties[name], f"{path}.{name}".lstrip("."), depth + 1
        )


def _types(schema: dict[str, Any]) -> set[str]:
    kinds = schema.get("type")
    return {kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)}


_CONFLICTS: Final[dict[str, Callable[[Schema, Schema], Iterator[str]]]] = {
    "AVRO": _avro_conflicts,
    "PROTOBUF": _protobuf_conflicts,
    "JSON": _json_conflicts,
}
