"""Chooses, among edits that read a frame equally well, the one that explains the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.wire.layout import Field, Layout, layout_of_element

Values = Mapping[str, Any]


def writes_same_bytes(right: Layout, layout: Layout, read: Values, written: Layout, other: Values) -> bool:
    """Whether encoding values in `layout` gives the same bytes from which another layout read different values.

    Args:
        right: Kafka's layout.
        layout: The writer's layout.
        read: All fields of a struct, as read in `layout`.
        written: The other layout.
        other: The values read in it. A field of `right` that it lacks may have any value; a field that `right` lacks
            too has its default, as in encoding.
    """
    right_fields = {field.name: field for field in (*right.fields, *right.tagged)}
    written_fields = {field.name: field for field in (*written.fields, *written.tagged)}
    for field in layout.fields:
        if field.writes is not None:
            continue
        if field.name not in other and (field.name in right_fields or read.get(field.name) != field.default):
            return False
        if field.name in other and not _same(
            right_fields.get(field.name), field, read.get(field.name), written_fields[field.name], other[field.name]
        ):
            return False
    for field in layout.tagged:
        if (field.name in read) != (field.name in other) or field.name not in written_fields:
            return False
        if field.name in read and not _same(
            right_fields.get(field.name), field, read[field.name], written_fields[field.name], other[field.name]
        ):
            return False
    return bool(read.get("_tags") == other.get("_tags"))


def _same(right: Field | None, field: Field, read: Any, written: Field, other: Any) -> bool:
    if field.struct is None or written.struct is None or read is None or other is None:
        return bool(read == other)
    struct = right.struct if right is not None and right.struct is not None else field.struct
    if not field.array:
        return isinstance(other, Mapping) and writes_same_bytes(struct, field.struct, read, written.struct, other)
    if not isinstance(other, list) or len(read) != len(other):
        return False
    return all(
        isinstance(other_value, Mapping)
        and writes_same_bytes(
            struct, layout_of_element(field, index), value, layout_of_element(written, index), other_value
        )
        for index, (value, other_value) in enumerate(zip(read, other, strict=True))
    )
