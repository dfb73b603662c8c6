"""Find where fields end without decoding them, which is much faster and can stop at any field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TypeAlias

from dissectors.wire.layout import WIDTHS, Field, Layout, cached_on_owner
from dissectors.wire.primitives import Irregularity, read_uvarint

#: Takes bytes and a position; returns the position after the skipped bytes.
#: Raises `dissectors.wire.compiled.Irregular` (ValueError, IndexError) if the bytes end early or are invalid.
Skipper: TypeAlias = Callable[[bytes, int], int]

_PREFIXES = {"int8": 1, "int16": 2, "int32": 4}


@cached_on_owner
def struct_skipper(layout: Layout) -> Skipper:
    """Return a skipper for a struct, or for a whole header or body."""
    skip = fields_skipper(layout.fields)
    if not layout.flexible:
        return skip
    return lambda data, position: skip_tags(data, skip(data, position))


def skipper_to(layout: Layout, name: str) -> Skipper:
    """Return a skipper for the fields before `name`. Building it takes time: callers should keep it."""
    return fields_skipper(takewhile(lambda field: field.name != name, layout.fields))


def fields_skipper(fields: Iterable[Field]) -> Skipper:
    """Return a skipper for consecutive fields. Building it takes time: callers should keep it."""
    steps: list[Skipper] = []
    width = 0
    for field in fields:
        if not field.array and field.type in WIDTHS:
            width += WIDTHS[field.type]
            continue
        if width:
            steps.append(_fixed_skipper(width))
            width = 0
        steps.append(skipper(field))
    if width:
        steps.append(_fixed_skipper(width))

    def skip(data: bytes, position: int) -> int:
        for step in steps:
            position = step(data, position)
        if position > len(data):
            raise Irregularity
        return position

    return skip


@cached_on_owner
def skipper(field: Field) -> Skipper:
    """Return a skipper for one untagged field."""
    if field.array:
        return _array_skipper(field)
    if field.struct is not None:
        return struct_skipper(field.struct) if field.length is None else _nullable_struct_skipper(field)
    return _fixed_skipper(WIDTHS[field.type]) if field.length is None else _sized_skipper(field.length)


def read_length(encoding: str, data: bytes, position: int) -> tuple[int, int]:
    """Read a length in an encoding of `Field.length`; return it (negative for null) and the position after it.

    Raises:
        ValueError, IndexError: As for `Skipper`.
    """
    if encoding == "uvarint":
        length = data[position]
        position += 1
        if length > 0x7F:
            length, position = read_uvarint(data, position, length)
        return length - 1, position
    width = _PREFIXES[encoding]
    if position + width > len(data):
        raise Irregularity
    return int.from_bytes(data[position : position + width], "big", signed=True), position + width


def skip_tags(data: bytes, position: int) -> int:
    """Skip a tag buffer and return the position after it."""
    count = data[position]
    position += 1
    if count:
        if count > 0x7F:
            count, position = read_uvarint(data, position, count)
        for _ in range(count):
            _, position = read_length("uvarint", data, position)
            size, position = read_length("uvarint", data, position)
            position += size + 1
            if position > len(data):
                raise Irregularity
    return position


def _fixed_skipper(width: int) -> Skipper:
    return lambda data, position: position + width


def _sized_skipper(encoding: str) -> Skipper:
    def skip(data: bytes, position: int) -> int:
        length, position = read_length(encoding, data, position)
        return position + length if length > 0 else position

    return skip


def _nullable_struct_skipper(field: Field) -> Skipper:
    assert field.struct is not None
    skip_struct = struct_skipper(field.struct)

    def skip(data: bytes, position: int) -> int:
        return skip_struct(data, position + 1) if data[position] == 1 else position + 1

    return skip


def _array_skipper(field: Field) -> Skipper:
    encoding = field.length
    assert encoding is not None
    if field.struct is None and field.element_length is None:
        width = WIDTHS[field.type]

        def skip_numbers(data: bytes, position: int) -> int:
            count, position = read_length(encoding, data, position)
            return position + max(count, 0) * width

        return skip_numbers
    skip_element = (
        struct_skipper(field.struct) if field.struct is not None else _sized_skipper(field.element_length or "")
    )

    def skip(data: bytes, position: int) -> int:
        count, position = read_length(encoding, data, position)
        end = len(data)
        for _ in range(count):
            position = skip_element(data, position)
            if position > end:
                raise Irregularity
        return position

    return skip
