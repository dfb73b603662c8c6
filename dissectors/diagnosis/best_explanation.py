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
    right_fields = {one.name: one for one in (*right.fields, *right.tagged)}
    written_fields = {one.name: one for one in (*written.fields, *written.tagged)}
    for one in layout.fields:
        if one.writes is not None:
            continue
        if one.name not in other and (one.name in right_fields or read.get(one.name) != one.default):
            return False
        if one.name in other and not _same(
            right_fields.get(one.name), one, read.get(one.name), written_fields[one.name], other[one.name]
        ):
            return False
    for one in layout.tagged:
        if (one.name in read) != (one.name in other) or one.name not in written_fields:
            return False
        if one.name in read and not _same(
            right_fields.get(one.name), one, read[one.name], written_fields[one.name], other[one.name]
        ):
            return False
    return bool(read.get("_tags") == other.get("_tags"))


def _same(right: Field | None, one: Field, read: Any, written: Field, other: Any) -> bool:
    if one.struct is None or written.struct is None or read is None or other is None:
        return bool(read == other)
    struct = right.struct if right is not None and right.struct is not None else one.struct
    if not one.array:
        return isinstance(other, Mapping) and writes_same_bytes(struct, one.struct, read, written.struct, other)
    if not isinstance(other, list) or len(read) != len(other):
        return False
    return all(
        isinstance(other_value, Mapping)
        and writes_same_bytes(
            struct, layout_of_element(one, index), value, layout_of_element(written, index), other_value
        )
        for index, (value, other_value) in enumerate(zip(read, other, strict=True))
    )
