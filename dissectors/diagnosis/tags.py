"""Find tags of other versions. Frames with such tags decode, so no search diagnoses them."""

from __future__ import annotations

import functools
from typing import NamedTuple

from dissectors.edits import Edit
from dissectors.messages.message import Message
from dissectors.wire.layout import Field, Layout, versions
from dissectors.wire.layout import layout as layout_of


class KnownTag(NamedTuple):
    """A tagged field of another version: the first such version, and the edit that writes it too early."""

    name: str
    version: int
    edit: Edit


def tag_of_other_version(message: Message, path: tuple[str | int, ...], tag: int) -> KnownTag | None:
    """Return the field that a tag denotes in other versions of a message; None if no version has the tag.

    Args:
        message: A message with the unknown tag.
        path: The path to the struct with the tag, as `dissectors.messages.locate.locate` takes it.
        tag: The number of the tag.
    """
    if message.layout is None or path[:1] == ("header",):
        return None
    names = tuple(part for part in path if isinstance(part, str))
    return _known_tags(message.layout.name, names).get(tag)


@functools.lru_cache(maxsize=1024)
def _known_tags(name: str, names: tuple[str, ...]) -> dict[int, KnownTag]:
    """Return the tags of a struct in all versions of a message, each as in the first version that has it."""
    known: dict[int, KnownTag] = {}
    for version in versions(name):
        struct: Layout | None = layout_of(name, version)
        path = ""
        for part in names:
            field = _field(struct, part)
            struct = field.struct if field else None
            path += f"{part}{'[]' if field and field.array else ''}."
        for tagged_field in struct.tagged if struct else ():
            assert tagged_field.tag is not None
            edit = Edit.of("tag_below_version", path + tagged_field.name, tag=tagged_field.tag)
            known.setdefault(tagged_field.tag, KnownTag(tagged_field.name, version, edit))
    return known


def _field(struct: Layout | None, name: str) -> Field | None:
    fields = (*struct.fields, *struct.tagged) if struct else ()
    return next((field for field in fields if field.name == name), None)
