"""Edits of a whole body or header, and edits that explain any bytes."""

from __future__ import annotations

from dataclasses import replace

from dissectors.edits.targets import change_body, change_struct, is_frame
from dissectors.schemas import api_by_name
from dissectors.wire.edit import EditError, kind
from dissectors.wire.layout import Field, Layout
from dissectors.wire.layout import layout as layout_of


def _body_version_sentence(field: str, body_version: int, header: int | None) -> str:
    del field
    subject = "the whole body has" if header is None else "header and body have"
    return f"{subject} the layout of version {body_version}"


@kind("body_version", "body_version", "header", sentence=_body_version_sentence)
def write_body_version(layout: Layout, field: str, body_version: int, header: int | None) -> Layout:
    """Write the body of another version; `header` is the header version on the wire, None for the correct one."""
    del field
    try:
        changed_layout = change_body(layout, lambda body: layout_of(body.name, body_version))
    except KeyError as error:
        raise EditError(str(error.args[0])) from None
    return changed_layout if header is None else write_header_version(changed_layout, "header", header)


@kind("body_of_api", "api", "body_version", sentence="the body is that of {api} v{body_version}")
def write_body_of_api(layout: Layout, field: str, api: str, body_version: int) -> Layout:
    """Write the body of another API: its request in a request, its response in a response."""
    del field

    def change(body: Layout) -> Layout:
        side = next((side for side in ("Request", "Response") if body.name.endswith(side)), None)
        if side is None or api_by_name(api) is None:
            raise EditError(f"{api} is not an API" if side else f"{body.name} is not the body of an API")
        try:
            return layout_of(f"{api}{side}", body_version)
        except KeyError as error:
            raise EditError(str(error.args[0])) from None

    return change_body(layout, change)


@kind("generic_error_body", sentence="the body is only an error code")
def write_generic_error_body(layout: Layout, field: str) -> Layout:
    """Write only an error code as the body."""
    del field
    return change_body(layout, lambda body: Layout(body.name, (Field("error_code", "int16", default=0),)))


@kind("header_version", "written", sentence="the header has the layout of version {written}")
def write_header_version(layout: Layout, field: str, written: int) -> Layout:
    """Write the header of another version."""
    del field

    def change(header: Layout) -> Layout:
        try:
            return layout_of(header.name, written)
        except KeyError as error:
            raise EditError(str(error.args[0])) from None

    return change_struct(layout, ("header",), change)


#: Kinds of edits that explain nearly any bytes.
LOOSE_KINDS = ("truncated", "trailing_bytes")


def _set_duplicated_size(data: bytes, prefix: str) -> bytes:
    """Set the duplicated size to the number of bytes after it."""
    return (len(data) - 4).to_bytes(4, "big") + data[4:] if prefix == "size" else data


def _duplicated_prefix_sentence(field: str, prefix: str) -> str:
    del field
    return f"the {prefix.replace('_', ' ')} is written twice"


@kind("duplicated_prefix", "prefix", sentence=_duplicated_prefix_sentence, data=_set_duplicated_size)
def duplicate_prefix(layout: Layout, field: str, prefix: str) -> Layout:
    """Write the ``size`` or ``correlation_id`` of a response twice."""
    del field
    if not is_frame(layout):
        raise EditError("a body without a header has no prefix")
    if prefix not in ("size", "correlation_id"):
        raise EditError("the prefix must be size or correlation_id")
    copy = Field(prefix, "int32", default=0)

    def change(header: Layout) -> Layout:
        insertion_index = next((index + 1 for index, field in enumerate(header.fields) if field.name == prefix), 0)
        return replace(header, fields=(*header.fields[:insertion_index], copy, *header.fields[insertion_index:]))

    return change_struct(layout, ("header",), change)


@kind(
    "truncated", "bytes", sentence="the end is cut off ({bytes} or more bytes)", data=lambda data, bytes: data[:-bytes]
)
def truncate(layout: Layout, field: str, bytes: int) -> Layout:
    """End the frame before the end of its body."""
    del field
    _check_byte_count(bytes)
    return layout


@kind(
    "trailing_bytes",
    "bytes",
    sentence="bytes follow the last field ({bytes})",
    data=lambda data, bytes: data + b"\x00" * bytes,
)
def append_trailing_bytes(layout: Layout, field: str, bytes: int) -> Layout:
    """Append bytes after the body."""
    del field
    _check_byte_count(bytes)
    return layout


def _check_byte_count(bytes: int) -> None:
    if not 0 < bytes < 1 << 31:
        raise EditError(f"a frame cannot have {bytes} missing or extra bytes")
