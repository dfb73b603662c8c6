"""Errors in embedded payloads, phrased as the end of a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dissectors import schemas
from dissectors.edits import Edit
from dissectors.embedded.registry import VERSION, lenient
from dissectors.records.formats import counted
from dissectors.schemas import VersionRange
from dissectors.wire.decode import decode
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Layout
from dissectors.wire.paths import render


def payload_error(data: bytes, reader: Callable[[bytes], Layout]) -> str | None:
    """Why the bytes are not a complete payload of the version in their first two bytes; None if they are.

    Bytes after the last field are accepted, because a later version may have more fields.
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
        return f"has version {version} but ends after {counted(len(data), 'byte')}, before its {what}"
    return f"has version {version} but cannot be read at {what}: {error.message}"


def payload_departure(data: bytes, payload: str, field: str) -> Edit | None:
    """The edit that explains how the payload was written, None if no edit does.

    Args:
        data: A payload that does not decode.
        payload: Kafka's name of the payload's message. The first two bytes are its version.
        field: The path of the field, e.g. ``protocols[].metadata``.
    """
    try:
        shape = lenient(payload, data, VERSION).fields[-1].struct
    except DecodeError:
        return None
    assert shape is not None
    for edit in _departures(shape, int.from_bytes(data[:2], "big")):
        read = decode(edit.apply(shape), data, 2)
        if read.error is None and not read.decode_warnings and read.end == len(data):
            return Edit.of("embedded_layout", field, payload=payload, edit=edit)
    return None


def _departures(shape: Layout, version: int) -> Iterator[Edit]:
    for where, one in reversed(list(enumerate(shape.fields))):
        yield Edit.of("field_missing", one.name, where=where)
    versions = VersionRange.parse(schemas.message(shape.name)["versions"])
    for lower in reversed([each for each in versions if each < version]):
        yield Edit.of("body_version", "*", body_version=lower, header=None)
