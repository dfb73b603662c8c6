"""Encode values to bytes in any layout: the inverse of `dissectors.wire.decode`."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import CODES, Field, Layout, layout_of_element
from dissectors.wire.primitives import TEXT_ERRORS, uuid_bytes, write_uvarint


def encode(layout: Layout, values: Mapping[str, Any]) -> bytes:
    """Encode `values` in `layout`.

    A field that is missing in `values` gets its default; a tagged field is written only if it is present. Unknown tags
    (``_tags``) are merged in by tag number. Well-formed bytes that `decode` has read are encoded to the same bytes.

    Raises:
        EncodeError: A value does not fit its type, or is null in a layout that cannot encode null.
    """
    out = bytearray()
    encode_into(out, layout, values)
    return bytes(out)


def encode_into(out: bytearray, layout: Layout, values: Mapping[str, Any]) -> None:
    """Append encoded `values` to `out`. Records may be a list of byte strings, which avoids joining them first.

    Raises:
        EncodeError: See `encode`.
    """
    _encode_struct(layout, values, out, ())


def _encode_struct(layout: Layout, values: Mapping[str, Any], out: bytearray, path: tuple[str, ...]) -> None:
    if not isinstance(values, Mapping):
        raise EncodeError(f"{layout.name} takes a mapping, not {type(values).__name__}", path=path)
    for field in layout.fields:
        _encode_field(field, values.get(field.name, field.default), out, (*path, field.name))
    if layout.flexible:
        _encode_tags(layout, values, out, path)


def _encode_tags(layout: Layout, values: Mapping[str, Any], out: bytearray, path: tuple[str, ...]) -> None:
    pairs: list[tuple[int, bytes]] = []
    for pair in values.get("_tags", ()):
        match pair:
            case [int(tag), bytes(data)] if 0 <= tag < 1 << 32:
                pairs.append((tag, data))
            case _:
                raise EncodeError(f"{pair!r} is not a tag and its bytes", path=(*path, "_tags"))
    for field in layout.tagged:
        if field.name in values:
            value_bytes = bytearray()
            _encode_field(field, values[field.name], value_bytes, (*path, field.name))
            assert field.tag is not None
            pairs.append((field.tag, bytes(value_bytes)))
    fault, (wrong_tag, delta) = layout.tag_fault, layout.wrong_size or (-1, 0)
    out += write_uvarint(len(pairs))
    for tag, data in sorted(pairs, key=lambda pair: pair[0], reverse=fault == "order"):
        size = len(data) + (delta if tag == wrong_tag else 0)
        if size < 0:
            raise EncodeError(f"tag {tag} of {len(data)} bytes cannot have the size {size}", path=(*path, "_tags"))
        out += write_uvarint(tag) + write_uvarint(size) + data
    if fault == "twice":
        out += b"\x00"


def _encode_field(field: Field, value: Any, out: bytearray, path: tuple[str, ...]) -> None:
    if field.writes == "null":
        value = None
    elif field.writes == "empty" and value is None:
        value = [] if field.array else "" if field.type == "string" else b""
    if field.array:
        if value is not None and not isinstance(value, list | tuple):
            raise EncodeError(f"{value!r} is not an array", path=path)
        _encode_length(field.length, None if value is None else len(value), out, path)
        for index, element in enumerate(value or ()):
            element_path = (*path, str(index))
            if field.struct is not None:
                _encode_struct(layout_of_element(field, index), element, out, element_path)
            else:
                _encode_value(field.type, field.element_length, element, out, element_path)
    elif field.struct is not None:
        if field.length is not None:
            null_marker = b"\x00" if field.length == "uvarint" else b"\xff"
            out += null_marker if value is None else b"\x01"
            if value is None:
                return
        _encode_struct(field.struct, value, out, path)
    else:
        _encode_value(field.type, field.length, value, out, path)


def _encode_value(kind: str, length: str | None, value: Any, out: bytearray, path: tuple[str, ...]) -> None:
    try:
        if length is None:
            out += uuid_bytes(value) if kind == "uuid" else struct.pack(">" + CODES[kind], value)
            return
        if kind == "records" and isinstance(value, list):
            _encode_length(length, sum(map(len, value)), out, path)
            for chunk in value:
                out += chunk
            return
        raw = value.encode("utf-8", TEXT_ERRORS) if isinstance(value, str) else value
        _encode_length(length, None if raw is None else len(raw), out, path)
        out += raw or b""
    except EncodeError:
        raise
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise EncodeError(f"{value!r} is not {kind}: {error}", path=path) from None


def _encode_length(encoding: str | None, size: int | None, out: bytearray, path: tuple[str, ...]) -> None:
    if encoding == "uvarint":
        out += write_uvarint(0 if size is None else size + 1)
        return
    if encoding in ("uvarint-1", "uvarint+1"):
        out += write_uvarint(0 if size is None else size + (2 if encoding == "uvarint+1" else 0))
        return
    if encoding is None:
        raise EncodeError("the layout has no length here", path=path)
    width = {"int16": 2, "int32": 4}[encoding]
    limit = (1 << (8 * width - 1)) - 1
    if size is not None and size > limit:
        raise EncodeError(f"{size} is over the limit of {limit}", path=path)
    out += (-1 if size is None else size).to_bytes(width, "big", signed=True)
