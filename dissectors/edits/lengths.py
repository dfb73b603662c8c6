"""Edits of lengths, of nulls, and of the encoding as a whole (KIP-482)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dissectors.edits.encodings import encoding_change, with_encoding
from dissectors.edits.targets import RecursiveChange, change_field, path_parts
from dissectors.wire.edit import EditError, kind
from dissectors.wire.layout import Field, Layout

ENCODINGS = ("fixed", "compact")
FIXED_WIDTHS = ("int8", "int16", "int32")
OFF_BY_ONE_LENGTHS = {-1: "uvarint-1", 1: "uvarint+1"}

#: The field names in length edits that stand for several fields of the body, and the text for each.
SCOPES = {"*": "all", "*strings": "strings", "*arrays": "arrays", "*bytes": "bytes"}

#: By encoding: its lengths, and whether it has tag buffers.
ENCODING_TEXTS = {"fixed": ("int16 and int32 lengths", "no tag buffers"), "compact": ("compact lengths", "tag buffers")}


def _encoding_texts(written: str) -> tuple[str, str]:
    return ENCODING_TEXTS.get(written, (f"{written} lengths", f"{written} tag buffers"))  # for invalid encodings


def _flexibility_sentence(field: str, written: str) -> str:
    del field
    lengths, tags = _encoding_texts(written)
    return f"the whole body is written with {lengths} and {tags}"


@kind("flexibility", "written", sentence=_flexibility_sentence)
def change_flexibility(layout: Layout, field: str, written: str) -> Layout:
    """Write int16 and int32 lengths and no tag buffers (``fixed``), or the reverse (``compact``)."""
    del field
    _check_encoding(written)
    return encoding_change(written).apply_to_body(layout)


def _length_encoding_sentence(field: str, written: str) -> str:
    if field == "*" and written in ENCODINGS:
        return f"the body is written with {_encoding_texts(written)[0]}"
    encoding_text = {"fixed": "as a fixed-width integer", "compact": "compact"}.get(written, f"as {written}")
    if field in SCOPES:
        encoding_text = encoding_text.replace("a fixed-width integer", "fixed-width integers")
        return f"the lengths of {SCOPES[field]} are written {encoding_text}"
    return f"the length of {field} is written {encoding_text}"


@kind("length_encoding", "written", sentence=_length_encoding_sentence)
def change_length_encoding(layout: Layout, field: str, written: str) -> Layout:
    """Change the length encoding of one field, of the elements of one (``names[]``), or of a scope (`SCOPES`).

    `written` is ``fixed``, ``compact``, or the width of the fixed-width integer.
    """
    if written not in (*ENCODINGS, *FIXED_WIDTHS):
        raise EditError(f"the encoding must be {', '.join(ENCODINGS)} or {' or '.join(FIXED_WIDTHS)}, not {written}")
    if field in SCOPES:
        return _change_scope(layout, "length_encoding", field, written, lambda each_field, elements: with_encoding(
            each_field, written, elements=elements
        ))  # fmt: skip
    elements = field.endswith("[]")
    return change_field(
        layout, path_parts(field), lambda target: with_encoding(target, written, elements=elements, strict=True)
    )


def _change_scope(
    layout: Layout, name: str, scope: str, detail: object, change: Callable[[Field, bool], Field]
) -> Layout:
    """Return the layout with the lengths of a scope changed."""

    def change_both(field: Field) -> Field:
        for elements in (True, False):
            if scope in ("*", scope_of(field, elements=elements)):
                field = change(field, elements)
        return field

    return RecursiveChange((name, (scope, detail)), change_both).apply_to_body(layout)


def scope_of(field: Field, *, elements: bool) -> str:
    """Return the scope of a field's length or of its elements' lengths; the count of an array is in ``*arrays``."""
    if field.array and not elements:
        return "*arrays"
    return "*strings" if field.type == "string" else "*bytes"


def _off_by_one_sentence(field: str, delta: int) -> str:
    adjective = "small" if delta < 0 else "large"
    if field in SCOPES:
        return f"every compact length{'' if field == '*' else f' of {SCOPES[field]}'} is one too {adjective}"
    return f"the compact length of {field} is one too {adjective}"


@kind("length_off_by_one", "delta", sentence=_off_by_one_sentence)
def shift_lengths(layout: Layout, field: str, delta: int) -> Layout:
    """Write compact lengths, which are the length plus one, off by `delta`."""
    if delta not in OFF_BY_ONE_LENGTHS:
        raise EditError("delta must be 1 or -1")

    def shift_length(layout_field: Field, elements: bool) -> Field:
        length = layout_field.element_length if elements else layout_field.length
        if length != "uvarint" or (layout_field.struct is not None and not layout_field.array):
            return layout_field
        return (
            replace(layout_field, element_length=OFF_BY_ONE_LENGTHS[delta])
            if elements
            else replace(layout_field, length=OFF_BY_ONE_LENGTHS[delta])
        )

    if field in SCOPES:
        return _change_scope(layout, "length_off_by_one", field, delta, shift_length)

    def shift_strictly(layout_field: Field) -> Field:
        if (shifted := shift_length(layout_field, field.endswith("[]"))) == layout_field:
            raise EditError(f"{field} has no compact length")
        return shifted

    return change_field(layout, path_parts(field), shift_strictly)


def _null_sentence(field: str, nullable_from: int | None) -> str:
    allowed = "not allowed" if nullable_from is None else f"allowed only from version {nullable_from} on"
    return f"{field} is null, which is {allowed}"


@kind("null_in_non_nullable", "nullable_from", sentence=_null_sentence)
def write_null(layout: Layout, field: str, nullable_from: int | None) -> Layout:
    """Write null instead of every value; `nullable_from` is the first version that allows null, None if none does."""
    del nullable_from
    return _change_nulls(layout, field, "null")


@kind("null_as_empty", "nullable_from", sentence="{field} is written as empty instead of null")
def write_empty_for_null(layout: Layout, field: str, nullable_from: int | None) -> Layout:
    """Write an empty value instead of null."""
    del nullable_from
    return _change_nulls(layout, field, "empty")


def _change_nulls(layout: Layout, field: str, replacement: str) -> Layout:
    def change(layout_field: Field) -> Field:
        if layout_field.length is None or (layout_field.struct is not None and not layout_field.array):
            raise EditError(f"{field} is not a string, array or bytes")
        return replace(layout_field, nullable=layout_field.nullable or replacement == "null", writes=replacement)

    return change_field(layout, path_parts(field), change)


def _check_encoding(written: str) -> None:
    if written not in ENCODINGS:
        raise EditError(f"the encoding must be {' or '.join(ENCODINGS)}, not {written}")
