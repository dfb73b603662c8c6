"""Kafka's primitive types between bytes and Python values: varints, uuids, text."""

from __future__ import annotations

import base64
import functools

#: Invalid UTF-8 stays in the string as lone surrogates, so that what was read can be written again.
TEXT_ERRORS = "surrogateescape"

#: Structs of arrays that are decoded of one message. An element of two bytes becomes a dict a hundred times as large:
#: without a limit a hostile frame of 32 MiB takes gigabytes.
MOST_ELEMENTS = 200_000


class Odd(ValueError):
    """The fast path met bytes that only the walk can explain."""


def read_uvarint(data: bytes, pos: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, `first`, stands before `pos`; (value, next position).

    Raises:
        Odd: More than five bytes, more than 32 bits, or longer than it need be.
        IndexError: The bytes end inside it.
    """
    value = first & 0x7F
    shift = 7
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 or value >> 32:
                raise Odd
            return value, pos
        shift += 7
        if shift > 28:
            raise Odd


def write_uvarint(value: int) -> bytes:
    """`value` (0 to 2^32 - 1) as an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@functools.lru_cache(maxsize=8192)
def uuid_text(raw: bytes) -> str:
    """Sixteen bytes as Kafka prints a uuid: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw)[:22].decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The sixteen bytes of a uuid as Kafka prints it.

    Raises:
        ValueError: Not 22 characters of URL-safe base64.
    """
    raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a uuid")
    return raw


def printable(text: str) -> str:
    r"""`text` without the lone surrogates that stand for invalid UTF-8: they become ``\xff``."""
    return text.encode("utf-8", TEXT_ERRORS).decode("utf-8", "backslashreplace")
