"""Edits of lengths, of nulls, and of the encoding as a whole (KIP-482)."""

from __future__ import annotations

from dataclasses import replace

from dissectors.edits.targets import Everywhere, change_field, parts
from dissectors.wire.edit import EditError, kind
from dissectors.wire.layout import Field, Layout

FIXED = {"string": "int16", "bytes": "int32", "records": "int32"}
WRITTEN = ("fixed", "compact")
OFF = {-1: "uvarint-1", 1: "uvarint+1"}


#: By encoding: its lengths, and whether it has tag buffers.
ENCODING_TEXTS = {"fixed": ("int16 and int32 lengths", "no tag buffers"), "compact": ("compact lengths", "tag buffers")}


def _encoding_texts(written: str) -> tuple[str, str]:
    return ENCODING_TEXTS.get(written, (f"{written} lengths", f"{written} tag buffers"))  # for invalid encodings


def _whole(field: str, written: str) -> str:
    del field
    lengths, tags = _encoding_texts(written)
    return f"the whole body is written with {lengths} and {tags}"


@kind("flexibility", "written", sentence=_whole)
def flexibility(layout: Layout, field: str, written: str) -> Layout:
    """``fixed``: int16 and int32 lengths and no tag buffers; ``compact``: the reverse."""
    del field
    _check_encoding(written)

    def encoded(struct: Layout) -> Layout:
        return replace(struct, flexible=written == "compact", tagged=struct.tagged if written == "compact" else ())

    return Everywhere(("flexibility", written), lambda one: _both(one, written), encoded).body(layout)


def _length_of(field: str, written: str) -> str:
    if field == "*":
        return f"the body is written with {_encoding_texts(written)[0]}"
    return f"the length of {field} is written {'as a fixed-width integer' if written == 'fixed' else 'compact'}"


@kind("length_encoding", "written", sentence=_length_of)
def length_encoding(layout: Layout, field: str, written: str) -> Layout:
    """Change the length encoding of one field, of the elements of one (``names[]``), or of all fields (``*``)."""
    _check_encoding(written)
    if field == "*":
        return Everywhere(("length_encoding", written), lambda one: _both(one, written)).body(layout)
    elements = field.endswith("[]")
    return change_field(layout, parts(field), lambda one: _encoded(one, written, elements=elements, strict=True))


def _off(field: str, delta: int) -> str:
    what = "every compact length" if field == "*" else f"the compact length of {field}"
    return f"{what} is one too {'small' if delta < 0 else 'large'}"


@kind("length_off_by_one", "delta", sentence=_off)
def off_by_one(layout: Layout, field: str, delta: int) -> Layout:
    """Write compact lengths, which are the length plus one, with an additional `delta`."""
    if delta not in OFF:
        raise EditError("delta must be 1 or -1")

    def off(one: Field, elements: bool) -> Field:
        of = one.element_length if elements else one.length
        if of != "uvarint" or (one.struct is not None and not one.array):
            return one
        return replace(one, element_length=OFF[delta]) if elements else replace(one, length=OFF[delta])

    if field == "*":
        return Everywhere(("length_off_by_one", delta), lambda one: off(off(one, True), False)).body(layout)

    def strictly(one: Field) -> Field:
        if (made := off(one, field.endswith("[]"))) == one:
            raise EditError(f"{field} has no compact length")
        return made

    return change_field(layout, parts(field), strictly)


def _null(field: str, nullable_from: int | None) -> str:
    allowed = "not allowed" if nullable_from is None else f"allowed only from version {nullable_from} on"
    return f"{field} is null, which is {allowed}"


@kind("null_in_non_nullable", "nullable_from", sentence=_null)
def null_in_non_nullable(layout: Layout, field: str, nullable_from: int | None) -> Layout:
    """Write null for every value; `nullable_from` is the first version that allows null, None if none does."""
    del nullable_from
    return _writes(layout, field, "null")


@kind("null_as_empty", "nullable_from", sentence="{field} is written as empty instead of null")
def null_as_empty(layout: Layout, field: str, nullable_from: int | None) -> Layout:
    """Write an empty value for null."""
    del nullable_from
    return _writes(layout, field, "empty")


def _writes(layout: Layout, field: str, what: str) -> Layout:
    def change(one: Field) -> Field:
        if one.length is None or (one.struct is not None and not one.array):
            raise EditError(f"{field} is not a string, array or bytes")
        return replace(one, nullable=one.nullable or what == "null", writes=what)

    return change_field(layout, parts(field), change)


def _check_encoding(written: str) -> None:
    if written not in WRITTEN:
        raise EditError(f"the encoding must be {' or '.join(WRITTEN)}, not {written}")


def _both(one: Field, written: str) -> Field:
    return _encoded(_encoded(one, written, elements=True), written)


def _encoded(one: Field, written: str, *, elements: bool = False, strict: bool = False) -> Field:
    """The field with the other length encoding; unchanged if it has no length."""
    if elements:
        made = replace(one, element_length=_length(one, written)) if one.element_length else one
    elif one.length is None or (one.struct is not None and not one.array):
        made = one
    else:
        made = replace(
            one, length=("int32" if written == "fixed" else "uvarint") if one.array else _length(one, written)
        )
    if strict and made == one:
        raise EditError(f"{one.name} already has this encoding")
    return made


def _length(one: Field, written: str) -> str:
    return FIXED[one.type] if written == "fixed" else "uvarint"
