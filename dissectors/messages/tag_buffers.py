"""Find the structs of a message whose tag buffers are not empty, quickly if there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from dissectors.messages.message import Message
from dissectors.wire.layout import Field, Layout, cached_on_owner

Row = dict[str, Any]
_TagDetector = Callable[[Sequence[Row]], bool]


class TaggedStruct(NamedTuple):
    """A struct with tagged fields. `path` is as `dissectors.messages.locate` takes it."""

    path: tuple[str | int, ...]
    layout: Layout
    row: Row


def structs_with_tags(message: Message) -> Iterator[TaggedStruct]:
    """Yield the structs of a well-formed message whose tag buffers are not empty, the header first."""
    if message.header_layout.flexible:
        yield from _find_tagged(message.header_layout, message.header, ("header",))
    if message.layout is not None and message.layout.flexible and _tag_detector(message.layout)((message.body,)):
        yield from _find_tagged(message.layout, message.body, ())


def is_default(field: Field, value: Any) -> bool:
    """Whether a value is the default of its field, i.e. its value if it is not on the wire."""
    if field.struct is None or field.array or not isinstance(value, dict) or field.default is None:
        return bool(value == field.default)
    inner = (*field.struct.fields, *field.struct.tagged)
    return "_tags" not in value and all(is_default(field, value.get(field.name, field.default)) for field in inner)


def _find_tagged(layout: Layout, row: Row, path: tuple[str | int, ...]) -> Iterator[TaggedStruct]:
    if len(row) > len(layout.fields):
        yield TaggedStruct(path, layout, row)
    for field, struct, has_tags in _struct_fields(layout):
        value = row.get(field.name)
        if not value:
            continue
        if not field.array:
            yield from _find_tagged(struct, value, (*path, field.name))
        elif has_tags(value):
            for index, element in enumerate(value):
                yield from _find_tagged(struct, element, (*path, field.name, index))


@cached_on_owner
def _struct_fields(layout: Layout) -> list[tuple[Field, Layout, _TagDetector]]:
    """Return the fields that are structs or arrays of structs, with the struct's layout and `_tag_detector`."""
    return [
        (field, field.struct, _tag_detector(field.struct))
        for field in (*layout.fields, *layout.tagged)
        if field.struct is not None
    ]


@cached_on_owner
def _tag_detector(layout: Layout) -> _TagDetector:
    """Return a function that tells whether any of several structs, or any struct in them, has a tagged field.

    A struct with tagged fields has more keys than the layout has plain fields.
    """
    plain_count = len(layout.fields)
    nested = [
        (itemgetter(field.name), field.array, _tag_detector(field.struct))
        for field in layout.fields
        if field.struct is not None
    ]

    def has_tags(rows: Sequence[Row]) -> bool:
        if max(map(len, rows)) > plain_count:
            return True
        for get_value, is_array, inner_has_tags in nested:
            for value in filter(None, map(get_value, rows)):
                if inner_has_tags(value if is_array else (value,)):
                    return True
        return False

    return has_tags
