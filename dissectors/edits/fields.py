"""Edits of one field: moved, missing, duplicated, from another version, or with another width."""

from __future__ import annotations

from dataclasses import replace

from dissectors.edits.encodings import in_encoding_of
from dissectors.edits.targets import (
    change_field,
    change_struct,
    check_not_empty,
    field_index,
    path_parts,
    split_field_path,
    struct_of,
)
from dissectors.wire.edit import EditError, kind
from dissectors.wire.layout import Field, Layout
from dissectors.wire.layout import layout as layout_of

#: Integer types that writers confuse.
INTEGERS = ("int8", "int16", "int32", "int64")
_CONFUSED_TYPES = (*INTEGERS, "uint16", "uint32", "bool")


@kind("field_moved", "from", "to", sentence="{field} is written at index {to} among its siblings instead of {from_}")
def move_field(layout: Layout, field: str, from_: int, to: int) -> Layout:
    """Move the field at index `from` to index `to`."""
    struct_path, name = split_field_path(path_parts(field))

    def change(struct: Layout) -> Layout:
        fields = struct.fields
        if not (0 <= from_ < len(fields) and 0 <= to < len(fields)) or fields[from_].name != name:
            raise EditError(f"{struct.name} has no {name} at {from_} to move to {to}")
        return with_moved_field(struct, from_, to)

    return change_struct(layout, struct_path, change)


@kind("field_missing", "where", sentence="{field} is missing")
def omit_field(layout: Layout, field: str, where: int) -> Layout:
    """Leave out the field at index `where`."""
    struct_path, name = split_field_path(path_parts(field))

    def change(struct: Layout) -> Layout:
        if not (0 <= where < len(struct.fields)) or struct.fields[where].name != name:
            raise EditError(f"{struct.name} has no {name} at {where}")
        return check_not_empty(without_field(struct, where), struct_path)

    return change_struct(layout, struct_path, change)


@kind("field_duplicated", "where", sentence="{field} is written twice, the second time at index {where}")
def duplicate_field(layout: Layout, field: str, where: int) -> Layout:
    """Write a second copy of the field at index `where`."""
    struct_path, name = split_field_path(path_parts(field))
    return change_struct(
        layout, struct_path, lambda struct: with_field(struct, struct.fields[field_index(struct, name)], where)
    )


@kind("field_from_version", "from_version", "place", sentence="{field} from version {from_version} is also written")
def insert_field_from_version(layout: Layout, field: str, from_version: int, place: int) -> Layout:
    """Insert a field of another version at index `place`."""
    struct_path, name = split_field_path(path_parts(field))
    if struct_path[:1] == ("header",):
        raise EditError("headers have no fields of other versions: use header_version")
    source = _layout_of_version(layout.name, from_version)
    for part in struct_path:
        source = struct_of(source, part) or source
    index = field_index(source, name)
    inserted = source.fields[index]
    return change_struct(
        layout, struct_path, lambda struct: with_field(struct, in_encoding_of(inserted, struct), place)
    )


@kind("int_width", "written", sentence="{field} is written as {written}")
def change_int_width(layout: Layout, field: str, written: str) -> Layout:
    """Write an integer with another width."""
    if written not in INTEGERS:
        raise EditError(f"unknown integer type {written}")

    def change(integer: Field) -> Field:
        if integer.type not in _CONFUSED_TYPES or integer.type == written:
            raise EditError(f"{field} is not an integer, or is already {written}")
        return replace(integer, type=written)

    return change_field(layout, path_parts(field), change)


def with_field(struct: Layout, new_field: Field, index: int) -> Layout:
    """Return the struct with an additional field at an index.

    Raises:
        EditError: The index is out of range.
    """
    if not 0 <= index <= len(struct.fields):
        raise EditError(f"{struct.name} has no index {index}")
    return _with_fields(struct, (*struct.fields[:index], new_field, *struct.fields[index:]))


def without_field(struct: Layout, index: int) -> Layout:
    """Return the struct without the field at an index."""
    return _with_fields(struct, struct.fields[:index] + struct.fields[index + 1 :])


def with_moved_field(struct: Layout, old_index: int, new_index: int) -> Layout:
    """Return the struct with a field moved from one index to another."""
    fields = list(struct.fields)
    fields.insert(new_index, fields.pop(old_index))
    return _with_fields(struct, tuple(fields))


def _with_fields(struct: Layout, fields: tuple[Field, ...]) -> Layout:
    """Return the struct with these fields. `replace` takes four times as long, and diagnosis calls this very often."""
    return Layout(struct.name, fields, struct.flexible, struct.tagged, struct.tag_fault)


def _layout_of_version(name: str, version: int) -> Layout:
    try:
        return layout_of(name, version)
    except KeyError as error:
        raise EditError(str(error.args[0])) from None
