"""Request fields as text: ``FIELD=VALUE``, such as ``topics=orders``, ``topics[0].partitions=0,1``, ``acks=-1``.

A path without an index names every element that an array has so far, or its first element if it is empty. An element of
an array of structs can be given by its main field alone, see `main_field`.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dissectors import records
from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import Field, Layout
from dissectors.wire.primitives import uuid_bytes, uuid_text
from kproxy.errors import UserError
from kproxy.filters.errors import nearest

_PATH_ELEMENT: Final = re.compile(r"(\w+)(?:\[(\d{1,4})\])?")
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}


def assign(struct: Layout, values: dict[str, Any], text: str) -> None:
    """Set the field that ``FIELD=VALUE`` names in `values`, a body as `dissectors.wire.encode.encode` takes it.

    Raises:
        UserError: The field does not exist in this version, or the value does not fit its type.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"{text!r} is not FIELD=VALUE")
    path_elements: list[tuple[str, int | None]] = []
    for element in path.split("."):
        match = _PATH_ELEMENT.fullmatch(element)
        if match is None:
            raise UserError(f"{path!r} is not a field path such as topics[0].name")
        path_elements.append((match[1], None if match[2] is None else int(match[2])))
    _assign(struct, values, path_elements, value, path)


def from_json(struct: Layout, value: Any, path: str = "") -> dict[str, Any]:
    """Convert a JSON object to the values of a struct. Bytes and UUIDs are given as text, as in `assign`.

    Raises:
        UserError: A field does not exist, or a value does not fit its type.
    """
    if not isinstance(value, Mapping):
        raise UserError(f"{path or struct.name} takes an object such as {{}}, not {_json_excerpt(value)}")
    values = {}
    for name, element in value.items():
        field_path = f"{path}.{name}" if path else name
        values[name] = _convert_json_value(_find_field(struct, name, field_path), element, field_path)
    return values


def main_field(struct: Layout) -> Field:
    """Return the field that a bare value sets in a struct: ``name``, else the first string, else the first field."""
    fields = struct.fields
    name_field = next((field for field in fields if field.name == "name"), None)
    return name_field or next((field for field in fields if field.type == "string" and not field.array), fields[0])


def _assign(
    struct: Layout, values: dict[str, Any], path_elements: list[tuple[str, int | None]], text: str, path: str
) -> None:
    (name, index), *remaining = path_elements
    field = _find_field(struct, name, path)
    if index is None and not remaining:
        values[name] = _parse_value(field, text, path)
        return
    if not field.array:
        if index is not None:
            raise UserError(f"{path}: {name} is not an array: leave out [{index}]")
        if field.struct is None:
            raise UserError(f"{path}: {name} is {field.type} and has no fields")
        inner = values[name] = values.get(name) or {}
        _assign(field.struct, inner, remaining, text, path)
        return
    elements = values[name] = values.get(name) or []
    while len(elements) <= (index or 0):
        elements.append({} if field.struct else _parse_element(field, "", path))
    if not remaining:
        elements[index or 0] = _parse_element(field, text, path)
        return
    if field.struct is None:
        raise UserError(f"{path}: the elements of {name} are {field.type} and have no fields")
    for element in elements if index is None else [elements[index]]:
        _assign(field.struct, element, remaining, text, path)


def _find_field(struct: Layout, name: str, path: str) -> Field:
    fields = (*struct.fields, *struct.tagged)
    field = next((field for field in fields if field.name == name), None)
    if field is None:
        names = [field.name for field in fields]
        suggestion = nearest(name, names)
        hint = (
            f"did you mean {suggestion}?"
            if suggestion
            else f"its fields are {', '.join(names)}"
            if names
            else "it has none"
        )
        raise UserError(f"{path}: {struct.name} has no field {name} in this version; {hint}")
    return field


def _parse_value(field: Field, text: str, path: str) -> Any:
    if text == "null":
        return _check_nullable(field, path)
    if text[:1] in ("[", "{") and (field.array or field.struct or field.type == "records"):
        try:
            return _convert_json_value(field, msgspec.json.decode(text), path)
        except msgspec.DecodeError as error:
            raise UserError(f"{path}: invalid JSON: {error}") from None
    if field.array:
        return [_parse_element(field, element, path) for element in text.split(",")] if text else []
    return _parse_element(field, text, path)


def _parse_element(field: Field, text: str, path: str) -> Any:
    """Return the value of a field that is not an array, or of one element of an array."""
    if field.struct is not None:
        main = main_field(field.struct)
        return {main.name: _parse_value(main, text, f"{path}.{main.name}")} if text else {}
    return _parse_scalar(field.type, text, path)


def _check_nullable(field: Field, path: str) -> None:
    if not field.nullable:
        raise UserError(f"{path} cannot be null; to send it nevertheless, pass --edit null_in_non_nullable:{path}")


def _convert_json_value(field: Field, value: Any, path: str) -> Any:
    if value is None:
        return _check_nullable(field, path)
    if not field.array:
        return _convert_json_element(field, value, path)
    if not isinstance(value, list):
        raise UserError(f"{path} takes an array, not {_json_excerpt(value)}")
    return [_convert_json_element(field, element, f"{path}[{index}]") for index, element in enumerate(value)]


def _convert_json_element(field: Field, value: Any, path: str) -> Any:
    if field.struct is not None:
        return (
            from_json(field.struct, value, path)
            if isinstance(value, Mapping)
            else _parse_element(field, str(value), path)
        )
    if field.type == "records" and isinstance(value, Mapping | list):
        return _encode_batch(value if isinstance(value, list) else [value], path)
    if field.type in ("string", "bytes", "records", "uuid") and not isinstance(value, str):
        raise UserError(f"{path} takes text, not {_json_excerpt(value)}")
    return _parse_scalar(field.type, str(value).lower() if isinstance(value, bool) else str(value), path)


def _parse_scalar(kind: str, text: str, path: str) -> Any:
    try:
        match kind:
            case "string":
                return text
            case "bytes":
                return _parse_bytes(text)
            case "records":
                return (
                    _parse_bytes(text)
                    if text.startswith(("hex:", "base64:"))
                    else _encode_batch([{"value": text}], path)
                )
            case "uuid":
                return _parse_uuid(text)
            case "bool":
                return _BOOLEANS[text.lower()]
            case "float64":
                return float(text)
            case _:
                return int(text or "0", 0)
    except (ValueError, KeyError, binascii.Error):
        raise UserError(f"{path} takes {_ACCEPTED_TEXT.get(kind, 'a whole number')}, not {text!r}") from None


_ACCEPTED_TEXT: Final = {
    "bytes": "text, hex:0a0b or base64:Cgs=",
    "records": "text, hex:0a0b, base64:Cgs= or JSON",
    "uuid": "a UUID (22 characters of base64, or hex)",
    "bool": "true or false",
    "float64": "a number",
}


def _parse_bytes(text: str) -> bytes:
    if text.startswith("hex:"):
        return bytes.fromhex(text[4:])
    if text.startswith("base64:"):
        return base64.b64decode(text[7:], validate=True)
    return text.encode(errors="surrogateescape")


def _parse_uuid(text: str) -> str:
    if not text:
        return uuid_text(bytes(16))
    if len(text) != 22:
        return uuid_text(uuid.UUID(text).bytes)
    uuid_bytes(text)
    return text


def _encode_batch(entries: list[Any], path: str) -> bytes:
    """Encode a record batch of format 2. Records are objects with ``key``, ``value``, ``headers``, or bare values."""
    now_ms = time.time_ns() // 1_000_000
    batch_records = []
    for entry in entries:
        record = entry if isinstance(entry, Mapping) else {"value": entry}
        if unknown := set(record) - {"key", "value", "headers", "timestamp"}:
            raise UserError(f"{path}: a record has key, value, headers and timestamp, not {min(unknown)}")
        headers = record.get("headers") or {}
        if not isinstance(headers, Mapping):
            raise UserError(f"{path}: headers are an object such as {{}}, not {_json_excerpt(headers)}")
        timestamp = record.get("timestamp", now_ms)
        if not isinstance(timestamp, int):
            raise UserError(f"{path}: a timestamp is in milliseconds since 1970, not {_json_excerpt(timestamp)}")
        batch_records.append({"key": _to_bytes(record.get("key")), "value": _to_bytes(record.get("value")),
                             "headers": [{"key": name, "value": _to_bytes(value)} for name, value in headers.items()],
                             "timestamp": timestamp, })  # fmt: skip
    try:
        return records.encode([{"records": batch_records, "partition_leader_epoch": -1}])
    except EncodeError as error:
        raise UserError(f"{path}: {error}") from None


def _to_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return _parse_bytes(value) if isinstance(value, str) else msgspec.json.encode(value)


def _json_excerpt(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:60]
