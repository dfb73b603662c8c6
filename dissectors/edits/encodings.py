"""The encoding of lengths (KIP-482): fixed-width or compact, with tag buffers or without."""

from __future__ import annotations

from dataclasses import replace

from dissectors.edits.targets import RecursiveChange
from dissectors.wire.edit import EditError
from dissectors.wire.layout import Field, Layout

FIXED_LENGTHS = {"string": "int16", "bytes": "int32", "records": "int32"}


def in_encoding_of(field: Field, struct: Layout) -> Field:
    """Return a field of another version in the encoding of a struct: with its kind of lengths and tag buffers."""
    return encoding_change("compact" if struct.flexible else "fixed").apply_to_field(field)


def encoding_change(written: str) -> RecursiveChange:
    """Return the change that writes everything in the other encoding."""

    def change_struct(struct: Layout) -> Layout:
        return replace(struct, flexible=written == "compact", tagged=struct.tagged if written == "compact" else ())

    return RecursiveChange(("flexibility", written), lambda field: _with_both_encodings(field, written), change_struct)


def _with_both_encodings(field: Field, written: str) -> Field:
    return with_encoding(with_encoding(field, written, elements=True), written)


def with_encoding(old_field: Field, written: str, *, elements: bool = False, strict: bool = False) -> Field:
    """Return the field with another encoding of its length or, for `elements`, of its elements' lengths.

    It stays unchanged if it has no such length; with `strict`, that is an `EditError`.
    """
    field = old_field
    if elements:
        if old_field.element_length and old_field.element_length != (
            length := _length_encoding(old_field.type, written)
        ):
            field = replace(old_field, element_length=length)
    elif old_field.length is not None and (old_field.struct is None or old_field.array):
        length = _length_encoding("array" if old_field.array else old_field.type, written)
        field = old_field if length == old_field.length else replace(old_field, length=length)
    if strict and field is old_field:
        raise EditError(f"{old_field.name} already has this encoding")
    return field


def _length_encoding(type_: str, written: str) -> str:
    if written == "compact":
        return "uvarint"
    if written == "int8":
        return "uvarint-1"  # the same byte, up to 127
    return FIXED_LENGTHS.get(type_, "int32") if written == "fixed" else written
