"""Where fields stand, without reading the values around them: much faster than decoding, and it can stop early."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dissectors.wire.layout import WIDTHS, Field, Layout, cached_on_owner
from dissectors.wire.primitives import Irregularity, read_uvarint

#: Takes the bytes and a position in them; gives the position behind what it skips. See `skip_fields` for errors.
Skipper: TypeAlias = Callable[[bytes, int], int]

_PREFIXES = {"int8": 1, "int16": 2, "int32": 4}


def skip_fields(layout: Layout, data: bytes, position: int, *, before: str | None = None) -> int:
    """The position behind a struct that begins at `position`, or that of its field `before`.

    Raises:
        ValueError, IndexError, struct.error: The bytes end, or are not regular (`dissectors.wire.compiled.Irregular`).
    """
    for field in layout.fields:
        if field.name == before:
            return position
        position = skipper(field)(data, position)
    return skip_tags(data, position) if layout.flexible else position


@cached_on_owner
def struct_skipper(layout: Layout) -> Skipper:
    """Skips a struct; fixed-width fields that follow each other in one step."""
    steps: list[Skipper] = []
    width = 0
    for field in layout.fields:
        if not field.array and field.type in WIDTHS:
            width += WIDTHS[field.type]
            continue
        if width:
            steps.append(_fixed(width))
            width = 0
        steps.append(skipper(field))
    if width:
        steps.append(_fixed(width))
    if layout.flexible:
        steps.append(skip_tags)

    def skip(data: bytes, position: int) -> int:
        for step in steps:
            position = step(data, position)
        if position > len(data):
            raise Irregularity
        return position

    return skip


@cached_on_owner
def skipper(field: Field) -> Skipper:
    """Skips one field that is not tagged."""
    if field.array:
        return _array(field)
    if field.struct is not None:
        return struct_skipper(field.struct) if field.length is None else _optional(field)
    return _fixed(WIDTHS[field.type]) if field.length is None else _sized(field.length)


def read_length(encoding: str, data: bytes, position: int) -> tuple[int, int]:
    """A length as written with an encoding of `Field.length`, negative for null; and the position behind it.

    Raises:
        ValueError, IndexError: As `skip_fields`.
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
    """Skips a tag buffer."""
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


def _fixed(width: int) -> Skipper:
    return lambda data, position: position + width


def _sized(encoding: str) -> Skipper:
    def skip(data: bytes, position: int) -> int:
        length, position = read_length(encoding, data, position)
        return position + length if length > 0 else position

    return skip


def _optional(field: Field) -> Skipper:
    assert field.struct is not None
    struct = struct_skipper(field.struct)

    def skip(data: bytes, position: int) -> int:
        return struct(data, position + 1) if data[position] == 1 else position + 1

    return skip


def _array(field: Field) -> Skipper:
    encoding = field.length
    assert encoding is not None
    if field.struct is None and field.element_length is None:
        width = WIDTHS[field.type]

        def skip_numbers(data: bytes, position: int) -> int:
            count, position = read_length(encoding, data, position)
            return position + max(count, 0) * width

        return skip_numbers
    element = struct_skipper(field.struct) if field.struct is not None else _sized(field.element_length or "")

    def skip(data: bytes, position: int) -> int:
        count, position = read_length(encoding, data, position)
        end = len(data)
        for _ in range(count):
            position = element(data, position)
            if position > end:
                raise Irregularity
        return position

    return skip
