"""Find the struct or field at the path of an edit, and rebuild the layout around its replacement."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from operator import is_
from typing import Any, NamedTuple

from dissectors.wire.edit import EditError
from dissectors.wire.layout import Field, Layout, cached_on_owner, layout_of_element

#: A single element of an array: ``topics[2]``.
_match_element = re.compile(r"(\w+)\[(\d{1,6})\]").fullmatch

ChangeStruct = Callable[[Layout], Layout]
ChangeField = Callable[[Field], Field]


def frame_layout(header: Layout, body: Layout) -> Layout:
    """Return header and body as one layout, named after the body, so that an edit can change both."""
    return Layout(
        body.name, (Field("header", "struct", struct=header), Field("body", "struct", struct=body)), flexible=False
    )


def is_frame(layout: Layout) -> bool:
    """Whether the layout comes from `frame_layout`."""
    return len(layout.fields) == 2 and layout.fields[0].name == "header" and layout.fields[1].name == "body"


def path_parts(path: str) -> tuple[str, ...]:
    """Split a path: ``topics[].partitions[].leader_epoch`` -> ``("topics", "partitions", "leader_epoch")``.

    The index of a single element stays: ``topics[2].name`` -> ``("topics[2]", "name")``.
    """
    return tuple(part.removesuffix("[]") for part in path.split(".")) if path not in ("", "*") else ()


def field_name_of(part: str) -> str:
    """Return the field name in a part of a path: ``topics`` for ``topics[2]``."""
    return part.partition("[")[0]


def struct_of(struct: Layout, part: str) -> Layout | None:
    """Return the struct in the field that a part of a path names; None if the field is not a struct."""
    name = field_name_of(part)
    return next((field.struct for field in (*struct.fields, *struct.tagged) if field.name == name), None)


def split_field_path(path: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the path of the struct that contains a field, and the field's name.

    Raises:
        EditError: The path leads to the whole body.
    """
    if not path:
        raise EditError("the whole body is not a field")
    return path[:-1], path[-1]


def change_body(layout: Layout, change: ChangeStruct) -> Layout:
    """Change the body; the layout may be that of the body alone or of the whole frame."""
    return _change_inner_struct(layout, "body", change) if is_frame(layout) else change(layout)


def change_struct(layout: Layout, path: tuple[str, ...], change: ChangeStruct) -> Layout:
    """Change the struct at a path: ``()`` is the body, ``("header",)`` the header.

    Raises:
        EditError: The struct does not exist.
    """
    if path[:1] == ("header",):
        if not is_frame(layout):
            raise EditError("a body without a frame has no header")
        return _change_inner_struct(layout, "header", lambda header: _change_nested(header, path[1:], change))
    return change_body(layout, lambda body: _change_nested(body, path, change))


def change_field(layout: Layout, path: tuple[str, ...], change: ChangeField) -> Layout:
    """Change the field at a path.

    Raises:
        EditError: The field does not exist.
    """
    struct_path, name = split_field_path(path)
    return change_struct(layout, struct_path, lambda struct: _replace_field(struct, name, change))


@cached_on_owner
def _changed_structs(struct: Layout) -> dict[tuple[str, Any], Layout | None]:
    """Return the cached results of changes to a struct, by key. None stands for an unchanged struct."""
    return {}


@cached_on_owner
def _changed_fields(field: Field) -> dict[tuple[str, Any], Field | None]:
    """Return the cached results of changes to a field, by key. None stands for an unchanged field."""
    return {}


class RecursiveChange(NamedTuple):
    """A change to every field of a body and its structs, innermost first, and then to those structs.

    The results are cached on each field or struct under `key`.
    """

    key: tuple[str, Any]
    field_change: ChangeField
    struct_change: ChangeStruct = lambda struct: struct

    def apply_to_body(self, layout: Layout) -> Layout:
        """Return the layout with its body changed; it may be the layout of the body alone or of the whole frame."""
        return change_body(layout, self.apply_to_struct)

    def apply_to_struct(self, struct: Layout) -> Layout:
        """Return the struct after the change to it and all nested fields; the same object if nothing changes."""
        changed = _changed_structs(struct)
        if self.key not in changed:
            fields, tagged = (
                tuple(map(self.apply_to_field, struct.fields)),
                tuple(map(self.apply_to_field, struct.tagged)),
            )
            is_same = all(map(is_, (*fields, *tagged), (*struct.fields, *struct.tagged)))
            result = self.struct_change(struct if is_same else replace(struct, fields=fields, tagged=tagged))
            changed[self.key] = None if result is struct else result  # avoids a reference cycle
        return changed[self.key] or struct

    def apply_to_field(self, field: Field) -> Field:
        """Return the field after the change to it and all nested fields; the same object if nothing changes."""
        changed = _changed_fields(field)
        if self.key not in changed:
            struct = self.apply_to_struct(field.struct) if field.struct else None
            result = self.field_change(field if struct is field.struct else replace(field, struct=struct))
            changed[self.key] = None if result is field else result
        return changed[self.key] or field


def check_not_empty(struct: Layout, path: tuple[str, ...]) -> Layout:
    """Check that an edited struct is not empty, and return it.

    Raises:
        EditError: The struct takes no bytes, so an array of such structs could have any number of elements.
    """
    if path and path != ("header",) and not struct.fields and not struct.flexible:
        raise EditError(f"nothing would be left of {struct.name}")
    return struct


def field_index(struct: Layout, name: str) -> int:
    """Return the index of a field in its struct.

    Raises:
        EditError: The struct does not have the field.
    """
    for index, field in enumerate(struct.fields):
        if field.name == name:
            return index
    raise EditError(f"{struct.name} has no field {name}")


def _change_nested(struct: Layout, path: tuple[str, ...], change: ChangeStruct) -> Layout:
    if not path:
        return change(struct)
    return _change_inner_struct(struct, path[0], lambda inner: _change_nested(inner, path[1:], change))


def _change_inner_struct(struct: Layout, name: str, change: ChangeStruct) -> Layout:
    indexed = _match_element(name)

    def change_inner(field: Field) -> Field:
        if field.struct is None:
            raise EditError(f"{field.name} has no fields")
        if indexed is None:
            return replace(field, struct=change(field.struct))
        if not field.array:
            raise EditError(f"{field.name} is not an array")
        index = int(indexed[2])
        return replace(field, deviating_element=(index, change(layout_of_element(field, index))))

    return _replace_field(struct, indexed[1] if indexed else name, change_inner)


def _replace_field(struct: Layout, name: str, change: ChangeField) -> Layout:
    for group in ("fields", "tagged"):
        fields: tuple[Field, ...] = getattr(struct, group)
        for index, field in enumerate(fields):
            if field.name == name:
                changed_fields = (*fields[:index], change(field), *fields[index + 1 :])
                return (
                    replace(struct, fields=changed_fields)
                    if group == "fields"
                    else replace(struct, tagged=changed_fields)
                )
    raise EditError(f"{struct.name} has no field {name}")
