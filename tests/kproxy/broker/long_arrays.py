"""Requests with long arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.wire.layout import Field, Layout

#: Fields that differ in each element, so that no element is a duplicate.
_DISTINCT = frozenset(
    (
        *("name", "topic", "topic_name", "resource_name", "member_id", "group_id", "transactional_id", "key"),
        *("entity_name", "feature", "principal", "path", "group_instance_id"),
        *("partition", "partition_index", "index", "producer_id"),
    )
)


def array_paths(layout: Layout, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each array in a message."""
    for field in (*layout.fields, *layout.tagged):
        if field.array:
            yield (*path, field.name)
        if field.struct is not None:
            yield from array_paths(field.struct, (*path, field.name))


def with_long_array(body: Mapping[str, Any], layout: Layout, path: tuple[str, ...], length: int) -> dict[str, Any]:
    """Return a copy of a request in which the array at a path has this length; outer arrays have one element."""
    name, *inner_path = path
    [field] = (field for field in (*layout.fields, *layout.tagged) if field.name == name)
    current = body.get(name)
    if inner_path:
        assert field.struct is not None
        first = (current or [{}])[0] if field.array else current or {}
        inner = with_long_array(first, field.struct, tuple(inner_path), length)
        return {**body, name: [inner] if field.array else inner}
    return {**body, name: [_element(field, current or [{}], number) for number in range(length)]}


def _element(field: Field, current: list[Any], number: int) -> Any:
    if field.struct is None:
        scalar = {"string": f"x.{number}", "uuid": "AAAAAAAAAAAAAAAAAAAAAQ", "bytes": b"x", "int8": number % 100}
        return scalar.get(field.type, number)
    distinct = {
        field.name: f"x.{number}" if field.type == "string" else number
        for field in field.struct.fields
        if field.name in _DISTINCT and not field.array and field.type in ("string", "int32", "int64")
    }
    return {**current[0], **distinct}
