"""Choose, among edits that read a frame equally well, the one that explains the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.wire.layout import Field, Layout, layout_of_element

Values = Mapping[str, Any]


def writes_same_bytes(
    correct_layout: Layout, layout: Layout, values: Values, other_layout: Layout, other_values: Values
) -> bool:
    """Whether encoding values in `layout` gives the bytes from which another layout read other values.

    Args:
        correct_layout: Kafka's layout.
        layout: The writer's layout.
        values: All fields of a struct, as read in `layout`.
        other_layout: The other layout.
        other_values: The values read in it. A field of `correct_layout` that it lacks may have any value; a
            field that `correct_layout` also lacks has its default, as in encoding.
    """
    correct_fields = {field.name: field for field in (*correct_layout.fields, *correct_layout.tagged)}
    other_fields = {field.name: field for field in (*other_layout.fields, *other_layout.tagged)}
    for field in layout.fields:
        if field.writes is not None:
            continue
        if field.name not in other_values and (field.name in correct_fields or values.get(field.name) != field.default):
            return False
        if field.name in other_values and not _writes_same_value(
            correct_fields.get(field.name),
            field,
            values.get(field.name),
            other_fields[field.name],
            other_values[field.name],
        ):
            return False
    for field in layout.tagged:
        if (field.name in values) != (field.name in other_values) or field.name not in other_fields:
            return False
        if field.name in values and not _writes_same_value(
            correct_fields.get(field.name),
            field,
            values[field.name],
            other_fields[field.name],
            other_values[field.name],
        ):
            return False
    return bool(values.get("_tags") == other_values.get("_tags"))


def _writes_same_value(
    correct_field: Field | None, field: Field, value: Any, other_field: Field, other_value: Any
) -> bool:
    if field.struct is None or other_field.struct is None or value is None or other_value is None:
        return bool(value == other_value)
    struct = correct_field.struct if correct_field is not None and correct_field.struct is not None else field.struct
    if not field.array:
        return isinstance(other_value, Mapping) and writes_same_bytes(
            struct, field.struct, value, other_field.struct, other_value
        )
    if not isinstance(other_value, list) or len(value) != len(other_value):
        return False
    return all(
        isinstance(other_element, Mapping)
        and writes_same_bytes(
            struct, layout_of_element(field, index), element, layout_of_element(other_field, index), other_element
        )
        for index, (element, other_element) in enumerate(zip(value, other_value, strict=True))
    )
