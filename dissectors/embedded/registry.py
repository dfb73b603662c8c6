"""Which payload stands in which bytes: whoever describes one registers the places where it stands."""

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
#: The structs around a field, outermost first; those of the payload or record that it stands in come last.
Rows = tuple[Row, ...]
#: Takes the bytes and the structs around them; gives the layout they are in, None where they are left alone.
#: Raises DecodeError where there should be a payload and is none; offsets count from the first of the bytes.
Reader = Callable[[bytes, Rows], Layout | None]

#: What names the owner of the records of control batches, in place of a topic.
CONTROL = "control record"

VERSION = Field("version", "int16")

_READERS: dict[tuple[str, str], Reader] = {}


def embedded(owner: str, path: str) -> Callable[[Reader], Reader]:
    """Register the reader of a field.

    Args:
        owner: A message (``JoinGroupRequest``), a payload (``ConsumerProtocolSubscription``), a topic or `CONTROL`.
        path: The field's names from there, joined with dots: ``protocols.metadata``, in a payload
            ``data.user_data``, in records ``key`` or ``value``.
    """

    def register(reader: Reader) -> Reader:
        _READERS[owner, path] = reader
        return reader

    return register


def reader_of(owner: str, path: str) -> Reader | None:
    """The reader of a field, None for most."""
    return _READERS.get((owner, path))


@functools.cache
def payload(name: str, version: int, *prefix: Field) -> Layout:
    """The layout of a message that stands in a field: what comes before it, then the message as ``data``.

    Raises:
        DecodeError: The message has no such version.
    """
    # Versions come off the wire: a call that raises is not kept, so the cache grows no larger than the schemas.
    try:
        message = layout(name, version)
    except KeyError:
        raise DecodeError(f"{name} has no version {version}", offset=0) from None
    return hand_made(message, *prefix)


def hand_made(message: Layout, *prefix: Field) -> Layout:
    """A payload as `payload` gives it, of a layout that the schemas do not have."""
    return Layout(message.name, (*prefix, Field("data", "struct", struct=message)))


def lenient(name: str, data: bytes, *prefix: Field) -> Layout:
    """The payload whose version stands in the first two bytes; of later versions what is known, as Kafka reads them.

    Raises:
        DecodeError: There is no version, or one below the first.
    """
    highest = VersionRange.parse(schemas.message(name)["versions"]).highest
    assert highest is not None
    return payload(name, min(int16(data), highest), *prefix)


def int16(data: bytes) -> int:
    """The number that the bytes begin with.

    Raises:
        DecodeError: Not even that is there.
    """
    if len(data) < 2:
        raise DecodeError(f"a payload of {len(data)} bytes has no room for its version", offset=0)
    return int.from_bytes(data[:2], "big", signed=True)


def exact(data: bytes, layouts: Iterable[Layout]) -> Layout | None:
    """The first of the layouts in which the bytes read well and to the last."""
    for one in layouts:
        read = decode(one, data)
        if read.error is None and not read.decode_warnings and read.end == len(data):
            return one
    return None


def said(rows: Rows, *names: str) -> str | None:
    """What the innermost struct that has one of these fields says in it; None for null and for empty."""
    for row in reversed(rows):
        for name in names:
            if name in row:
                return row[name] or None
    return None
