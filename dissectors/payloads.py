"""What is wrong with a payload inside a field, as a sentence goes on."""

from __future__ import annotations

from collections.abc import Callable

from dissectors.decode import decode
from dissectors.errors import DecodeError
from dissectors.layout import Layout
from dissectors.paths import render
from dissectors.records.formats import counted


def fault_of(data: bytes, reader: Callable[[bytes], Layout]) -> str | None:
    """Why the bytes are not a whole payload of the version that they begin with; None if they are.

    Bytes after the last field are right: a later version may have them.
    """
    if not data:
        return "is empty"
    try:
        error = decode(reader(data), data).error
    except DecodeError as unreadable:
        error = unreadable
    if error is None:
        return None
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        return f"has no version: {error.message}"
    what = render(part for part in error.path if part != "data")
    if error.offset >= len(data):
        return f"says version {version} and ends after {counted(len(data), 'byte')}, before its {what}"
    return f"says version {version} and cannot be read at {what}: {error.message}"
