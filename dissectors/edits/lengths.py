"""Edits of lengths, of nulls, and of the encoding as a whole (KIP-482)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dissectors.edits.encodings import encoded, encodings
from dissectors.edits.targets import Everywhere, change_field, parts
from dissectors.wire.edit import EditError, kind
from dissectors.wire.layout import Field, Layout

WRITTEN = ("fixed", "compact")
WIDTHS = ("int8", "int16", "int32")
OFF = {-1: "uvarint-1", 1: "uvarint+1"}

#: The fields of an edit of lengths that refer to several fields of the body, and what they are.
SCOPES = {"*": "all", "*strings": "strings", "*arrays": "arrays", "*bytes": "bytes"}

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
    return encodings(written).body(layout)


def _length_of(field: str, written: str) -> str:
    if field == "*" and written in WRITTEN:
        return f"the body is written with {_encoding_texts(written)[0]}"
    encoding_text = {"fixed": "as a fixed-width integer", "compact": "compact"}.get(written, f"as {written}")
    if field in SCOPES:
        return (
            f"the lengths of {SCOPES[field]} are written {encoding_text.replace('a fixed-width integer', 'fixed-width integers')}"
        )
    return f"the length of {field} is written {encoding_text}"


@kind("length_encoding", "written", sentence=_length_of)
def length_encoding(layout: Layout, field: str, written: str) -> Layout:
    """Change the length encoding of one field, of the elements of one (``names[]``), or of a scope (`SCOPES`).

    `written` is ``fixed``, ``compact``, or the width of the fixed-width integer.
    """
    if written not in (*WRITTEN, *WIDTHS):
        raise EditError(f"the encoding must be {', '.join(WRITTEN)} or {' or '.join(WIDTHS)}, not {written}")
    if field in SCOPES:
        return _everywhere(layout, "length_encoding", field, written, lambda one, elements: encoded(
            one, written, elements=elements
        ))  # fmt: skip
    elements = field.endswith("[]")
    return change_field(layout, parts(field), lambda one: encoded(one, written, elements=elements, strict=True))


def _everywhere(layout: Layout, name: str, scope: str, detail: object, change: Callable[[Field, bool], Field]) -> Layout:
    """The layout with the lengths of a scope changed."""

    def change_both(field: Field) -> Field:
        for elements in (True, False):
            if scope in ("*", scope_of(field, elements=elements)):
                field = change(field, elements)
        return field

    return Everywhere((name, (scope, detail)), change_both).body(layout)


def scope_of(field: Field, *, elements: bool) -> str:
    """The scope of a field's length, or of that of its elements: the count of an array is in that of arrays."""
    if field.array and not elements:
        return "*arrays"
    return "*strings" if field.type == "string" else "*bytes"


def _off(field: str, delta: int) -> str:
    size = "small" if delta < 0 else "large"
    if field in SCOPES:
        return f"every compact length{'' if field == '*' else f' of {SCOPES[field]}'} is one too {size}"
    return f"the compact length of {field} is one too {size}"


@kind("length_off_by_one", "delta", sentence=_off)
def off_by_one(layout: Layout, field: str, delta: int) -> Layout:
    """Write compact lengths, which are the length plus one, with an additional `delta`."""
    if delta not in OFF:
        raise EditError("delta must be 1 or -1")

    def shift_length(layout_field: Field, elements: bool) -> Field:
        length = layout_field.element_length if elements else layout_field.length
        if length != "uvarint" or (layout_field.struct is not None and not layout_field.array):
            return layout_field
        return replace(layout_field, element_length=OFF[delta]) if elements else replace(layout_field, length=OFF[delta])

    if field in SCOPES:
        return _everywhere(layout, "length_off_by_one", field, delta, shift_length)

    def shift_strictly(layout_field: Field) -> Field:
        if (shifted := shift_length(layout_field, field.endswith("[]"))) == layout_field:
            raise EditError(f"{field} has no compact length")
        return shifted

    return change_field(layout, parts(field), shift_strictly)


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


def _writes(layout: Layout, field: str, replacement: str) -> Layout:
    def change(layout_field: Field) -> Field:
        if layout_field.length is None or (layout_field.struct is not None and not layout_field.array):
            raise EditError(f"{field} is not a string, array or bytes")
        return replace(layout_field, nullable=layout_field.nullable or replacement == "null", writes=replacement)

    return change_field(layout, parts(field), change)


def _check_encoding(written: str) -> None:
    if written not in WRITTEN:
        raise EditError(f"the encoding must be {' or '.join(WRITTEN)}, not {written}")
