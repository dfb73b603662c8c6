"""The fields that a struct has in other versions of a message."""

from __future__ import annotations

import functools
from typing import NamedTuple

from dissectors import schemas
from dissectors.schemas import VersionRange
from dissectors.wire.layout import Field, Layout
from dissectors.wire.layout import layout as layout_of


class Others(NamedTuple):
    """Fields that a struct lacks, by name: the nearest version that has it, its place in the struct, and the field.

    Fields that may be null, with the first version in which they may. Tagged fields that it lacks, and the first
    version that has each field, unless that is this one alone.
    """

    fields: dict[str, tuple[int, int, Field]]
    nullable: dict[str, int]
    tags: dict[str, Field]
    since: dict[str, int]


def versions(name: str) -> VersionRange:
    """Every version of a message."""
    return VersionRange.parse(schemas.message(name)["versions"])


def others(name: str, version: int, path: tuple[str, ...], struct: Layout) -> Others:
    """What other versions have in a struct.

    Args:
        name: Of the message.
        version: The one that its body should have.
        path: The names of the fields that lead to the struct.
        struct: As it is there, maybe with edits.
    """
    return _others(
        name, version, path, tuple(one.name for one in struct.fields), tuple(one.name for one in struct.tagged)
    )


@functools.lru_cache(maxsize=1024)
def _others(name: str, version: int, path: tuple[str, ...], fields: tuple[str, ...], tagged: tuple[str, ...]) -> Others:
    have = {*fields, *tagged}
    made = Others({}, {}, {}, {})
    for other, struct in _history(name, version, path):
        for index, one in enumerate(struct.fields):
            made.since[one.name] = min(other, made.since.get(one.name, other))
            if one.nullable:
                made.nullable[one.name] = min(other, made.nullable.get(one.name, other))
            if one.name not in have:
                before = {each.name for each in struct.fields[:index]}
                made.fields.setdefault(one.name, (other, sum(each in before for each in fields), one))
        for one in struct.tagged:
            if one.name not in have and one.tag is not None:
                made.tags[one.name] = one
    return made


@functools.lru_cache(maxsize=1024)
def _history(name: str, version: int, path: tuple[str, ...]) -> tuple[tuple[int, Layout], ...]:
    """The struct at every other version, the nearest first, of two as near the later."""
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
