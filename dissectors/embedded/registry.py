"""The registry of payload readers: by message, payload or topic, and by field."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from dissectors import schemas
from dissectors.schemas import VersionRange
from dissectors.wire.decode import decode
from dissectors.wire.errors import DecodeError
from dissectors.wire.layout import Field, Layout, layout

Row = dict[str, Any]
#: The enclosing structs of a field, outermost first, including the structs of the payload or record that contains it.
Rows = tuple[Row, ...]
#: (bytes, enclosing structs) -> layout of the payload, None if the bytes should stay as they are. Raises DecodeError if
#: the payload is missing or invalid; its offset counts from the first byte.
Reader = Callable[[bytes, Rows], Layout | None]

#: The owner of records in control batches, used in place of a topic.
CONTROL = "control record"

VERSION = Field("version", "int16")

_READERS: dict[tuple[str, str], Reader] = {}


def embedded(owner: str, path: str) -> Callable[[Reader], Reader]:
    """Register the reader of a field.

    Args:
        owner: A message (``JoinGroupRequest``), a payload (``ConsumerProtocolSubscription``), a topic or `CONTROL`.
        path: The field's path in the owner: ``protocols.metadata``, in a payload ``data.user_data``, in records ``key``
            or ``value``.
    """

    def register(reader: Reader) -> Reader:
        _READERS[owner, path] = reader
        return reader

    return register


def reader_of(owner: str, path: str) -> Reader | None:
    """Return the reader of a field; None for most fields."""
    return _READERS.get((owner, path))


@functools.cache
def payload_layout(name: str, version: int, *prefix: Field) -> Layout:
    """Return the layout of a payload: the prefix fields, then the message as ``data``.

    Raises:
        DecodeError: The message does not have that version.
    """
    # Versions come from the wire. `functools.cache` does not cache calls that raise, so the cache stays bounded.
    try:
        message = layout(name, version)
    except KeyError:
        raise DecodeError(f"{name} has no version {version}", offset=0) from None
    return payload_of_layout(message, *prefix)


def payload_of_layout(message: Layout, *prefix: Field) -> Layout:
    """Return the layout of a payload like `payload_layout`, for a message that is not in the schemas."""
    return Layout(message.name, (*prefix, Field("data", "struct", struct=message)))


def payload_at_stated_version(name: str, data: bytes, *prefix: Field) -> Layout:
    """Return the layout of a payload by the version in its first two bytes; like Kafka, read later ones as the latest.

    Raises:
        DecodeError: The version is missing or below the first.
    """
    highest = VersionRange.parse(schemas.message(name)["versions"]).highest
    assert highest is not None
    return payload_layout(name, min(read_version(data), highest), *prefix)


def read_version(data: bytes) -> int:
    """Return the int16 at the start of a payload: its version, or the type of a coordinator's record.

    Raises:
        DecodeError: There are fewer than two bytes.
    """
    if len(data) < 2:
        raise DecodeError(f"a payload of {len(data)} bytes has no room for its version", offset=0)
    return int.from_bytes(data[:2], "big", signed=True)


def find_exact_layout(data: bytes, layouts: Iterable[Layout]) -> Layout | None:
    """Return the first layout in which the bytes decode completely; None if there is none."""
    for candidate in layouts:
        decoded = decode(candidate, data)
        if decoded.error is None and not decoded.decode_warnings and decoded.end == len(data):
            return candidate
    return None


def enclosing_text(rows: Rows, *names: str) -> str | None:
    """Return the string in the innermost struct that has one of these fields; None if it is null or empty."""
    for row in reversed(rows):
        for name in names:
            if name in row:
                return row[name] or None
    return None
