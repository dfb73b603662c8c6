"""The fields that a struct has in other versions of a message."""

from __future__ import annotations

import functools
from typing import NamedTuple

from dissectors.edits.encodings import in_encoding_of
from dissectors.wire.layout import Field, Layout, versions
from dissectors.wire.layout import layout as layout_of


class OtherVersionFields(NamedTuple):
    """The fields of a struct in other versions.

    Attributes:
        fields: Fields that the struct lacks: the nearest version that has the field, its index, and the field.
        nullable: The first version in which a field is nullable.
        tags: Tagged fields that the struct lacks.
        since: The first other version that has a field.
    """

    fields: dict[str, tuple[int, int, Field]]
    nullable: dict[str, int]
    tags: dict[str, Field]
    since: dict[str, int]


def other_version_fields(name: str, version: int, path: tuple[str, ...], struct: Layout) -> OtherVersionFields:
    """Find the fields that a struct has in other versions.

    Args:
        name: Name of the message.
        version: The version that the body should have.
        path: The names of the fields that lead to the struct.
        struct: The struct, perhaps with edits.
    """
    names = tuple(field.name for field in struct.fields)
    return _find_other_version_fields(
        name, version, path, names, tuple(field.name for field in struct.tagged), struct.flexible
    )


@functools.lru_cache(maxsize=1024)
def _find_other_version_fields(
    name: str, version: int, path: tuple[str, ...], fields: tuple[str, ...], tagged: tuple[str, ...], flexible: bool
) -> OtherVersionFields:
    field_names, target_struct = {*fields, *tagged}, Layout("", (), flexible)
    result = OtherVersionFields({}, {}, {}, {})
    for other_version, struct in _structs_in_other_versions(name, version, path):
        for index, field in enumerate(struct.fields):
            result.since[field.name] = min(other_version, result.since.get(field.name, other_version))
            if field.nullable:
                result.nullable[field.name] = min(other_version, result.nullable.get(field.name, other_version))
            if field.name not in field_names:
                preceding = {field.name for field in struct.fields[:index]}
                natural_index = sum(name in preceding for name in fields)
                result.fields.setdefault(
                    field.name, (other_version, natural_index, in_encoding_of(field, target_struct))
                )
        for field in struct.tagged:
            if field.name not in field_names and field.tag is not None:
                result.tags[field.name] = field
    return result


@functools.lru_cache(maxsize=1024)
def _structs_in_other_versions(name: str, version: int, path: tuple[str, ...]) -> tuple[tuple[int, Layout], ...]:
    """Return the struct in all other versions, nearest first; of two equally near versions, the later one first."""
    if not path:
        nearest = sorted(
            (other_version for other_version in versions(name) if other_version != version),
            key=lambda other: (abs(other - version), -other),
        )
        return tuple((other_version, layout_of(name, other_version)) for other_version in nearest)
    return tuple(
        (other_version, field.struct)
        for other_version, struct in _structs_in_other_versions(name, version, path[:-1])
        for field in (*struct.fields, *struct.tagged)
        if field.name == path[-1] and field.struct is not None
    )
