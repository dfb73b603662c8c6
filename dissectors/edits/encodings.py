"""The encoding of lengths (KIP-482): fixed-width or compact, with tag buffers or without."""

from __future__ import annotations

from dataclasses import replace

from dissectors.edits.targets import Everywhere
from dissectors.wire.edit import EditError
from dissectors.wire.layout import Field, Layout

FIXED = {"string": "int16", "bytes": "int32", "records": "int32"}


def in_encoding_of(field: Field, struct: Layout) -> Field:
    """A field of another version as a writer of a struct writes it: with that struct's lengths and tag buffers."""
    return encodings("compact" if struct.flexible else "fixed").field(field)


def encodings(written: str) -> Everywhere:
    """The change of everything to the other encoding."""

    def changed(struct: Layout) -> Layout:
        return replace(struct, flexible=written == "compact", tagged=struct.tagged if written == "compact" else ())

    return Everywhere(("flexibility", written), lambda one: _both(one, written), changed)


def _both(field: Field, written: str) -> Field:
    return encoded(encoded(field, written, elements=True), written)


def encoded(one: Field, written: str, *, elements: bool = False, strict: bool = False) -> Field:
    """The field with the other length encoding; unchanged if it has no length."""
    field = one
    if elements:
        if one.element_length and one.element_length != (length := _length(one.type, written)):
            field = replace(one, element_length=length)
    elif one.length is not None and (one.struct is None or one.array):
        length = _length("array" if one.array else one.type, written)
        field = one if length == one.length else replace(one, length=length)
    if strict and field is one:
        raise EditError(f"{one.name} already has this encoding")
    return field


def _length(type_: str, written: str) -> str:
    if written == "compact":
        return "uvarint"
    if written == "int8":
        return "uvarint-1"  # the same byte, up to 127
    return FIXED.get(type_, "int32") if written == "fixed" else written
