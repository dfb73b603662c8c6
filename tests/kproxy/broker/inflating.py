"""Requests whose arrays are long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.wire.layout import Field, Layout

#: Fields that are different in each element, so that none is a duplicate.
_DISTINCT = frozenset(
    (
        *("name", "topic", "topic_name", "resource_name", "member_id", "group_id", "transactional_id", "key"),
        *("entity_name", "feature", "principal", "path", "group_instance_id"),
        *("partition", "partition_index", "index", "producer_id"),
    )
)


def arrays(made: Layout, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each array in a message."""
    for one in (*made.fields, *made.tagged):
        if one.array:
            yield (*path, one.name)
        if one.struct is not None:
            yield from arrays(one.struct, (*path, one.name))


def inflated(body: Mapping[str, Any], made: Layout, path: tuple[str, ...], length: int) -> dict[str, Any]:
    """A copy of a request in which the array at a path is as long; those above it have one element."""
    name, *below = path
    [one] = (each for each in (*made.fields, *made.tagged) if each.name == name)
    here = body.get(name)
    if below:
        assert one.struct is not None
        first = (here or [{}])[0] if one.array else here or {}
        inner = inflated(first, one.struct, tuple(below), length)
        return {**body, name: [inner] if one.array else inner}
    return {**body, name: [_element(one, here or [{}], number) for number in range(length)]}


def _element(one: Field, here: list[Any], number: int) -> Any:
    if one.struct is None:
        plain = {"string": f"x.{number}", "uuid": "AAAAAAAAAAAAAAAAAAAAAQ", "bytes": b"x", "int8": number % 100}
        return plain.get(one.type, number)
    changed = {
        each.name: f"x.{number}" if each.type == "string" else number
        for each in one.struct.fields
        if each.name in _DISTINCT and not each.array and each.type in ("string", "int32", "int64")
    }
    return {**here[0], **changed}
