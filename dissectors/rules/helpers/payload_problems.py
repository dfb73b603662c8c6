"""Errors in embedded payloads, phrased as the end of a sentence."""

from __future__ import annotations

from collections.abc import Callable

from dissectors.records.formats import count_text
from dissectors.wire.decode import decode
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Layout
from dissectors.wire.paths import render


def payload_error(data: bytes, find_layout: Callable[[bytes], Layout]) -> str | None:
    """Return why the bytes are not a complete payload of the version in their first two bytes; None if they are.

    Bytes after the last field are accepted, because a later version may have more fields.
    """
    if not data:
        return "is empty"
    try:
        error = decode(find_layout(data), data).error
    except DecodeError as decode_error:
        error = decode_error
    if error is None:
        return None
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        return f"has no version: {error.message}"
    field_path = render(name for name in error.path if name != "data")
    if error.offset >= len(data):
        return f"has version {version} but ends after {count_text(len(data), 'byte')}, before its {field_path}"
    return f"has version {version} but cannot be read at {field_path}: {error.message}"
