"""The fields that a struct has in other versions of a message."""

from __future__ import annotations

import functools
from typing import NamedTuple

from dissectors.edits.encodings import in_encoding_of
from dissectors.wire.layout import Field, Layout, versions
from dissectors.wire.layout import layout as layout_of


class Others(NamedTuple):
    """The fields of a struct in other versions, in four parts.

    Fields that it lacks, by name: the nearest version that has it, its index and the field. Nullable fields, with the
    first nullable version. Tagged fields that it lacks. The first version that has each field, except fields of this
    version only.
    """

    fields: dict[str, tuple[int, int, Field]]
    nullable: dict[str, int]
    tags: dict[str, Field]
    since: dict[str, int]


def others(name: str, version: int, path: tuple[str, ...], struct: Layout) -> Others:
    """The fields of a struct in other versions.

    Args:
        name: Name of the message.
        version: The version that its body should have.
        path: The names of the fields that lead to the struct.
        struct: The struct, perhaps with edits.
    """
    names = tuple(one.name for one in struct.fields)
    return _others(name, version, path, names, tuple(one.name for one in struct.tagged), struct.flexible)


@functools.lru_cache(maxsize=1024)
def _others(
    name: str, version: int, path: tuple[str, ...], fields: tuple[str, ...], tagged: tuple[str, ...], flexible: bool
) -> Others:
    have, made_for = {*fields, *tagged}, Layout("", (), flexible)
    made = Others({}, {}, {}, {})
    for other, struct in _history(name, version, path):
        for index, one in enumerate(struct.fields):
            made.since[one.name] = min(other, made.since.get(one.name, other))
            if one.nullable:
                made.nullable[one.name] = min(other, made.nullable.get(one.name, other))
            if one.name not in have:
                before = {each.name for each in struct.fields[:index]}
                natural = sum(each in before for each in fields)
                made.fields.setdefault(one.name, (other, natural, in_encoding_of(one, made_for)))
        for one in struct.tagged:
            if one.name not in have and one.tag is not None:
                made.tags[one.name] = one
    return made


@functools.lru_cache(maxsize=1024)
def _history(name: str, version: int, path: tuple[str, ...]) -> tuple[tuple[int, Layout], ...]:
    """The struct in every other version, the nearest first, and the later one first of two equally near."""
    if not path:
        near = sorted(
            (each for each in versions(name) if each != version), key=lambda each: (abs(each - version), -each)
        )
        return tuple((each, layout_of(name, each)) for each in near)
    return tuple(
        (other, found.struct)
        for other, struct in _history(name, version, path[:-1])
        for found in (*struct.fields, *struct.tagged)
        if found.name == path[-1] and found.struct is not None
    )
