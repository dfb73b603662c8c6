"""Kafka's primitive types as Python values: varints, uuids, text."""

from __future__ import annotations

import base64
import functools

#: Invalid UTF-8 decodes to lone surrogates, so that the string encodes to the same bytes again.
TEXT_ERRORS = "surrogateescape"

#: The maximum number of array elements decoded in one message. An element of two bytes becomes a dict a hundred times
#: as large: without a limit, a hostile frame of 32 MiB would take gigabytes.
MAX_ELEMENTS = 200_000


class Irregularity(ValueError):
    """Raised by the fast path for irregular bytes; the walk then reports what is wrong."""


def read_uvarint(data: bytes, pos: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint after its first byte, which is passed as `first`.

    Returns:
        The value and the offset after the varint.

    Raises:
        Irregularity: The varint has more than five bytes, more than 32 bits, or superfluous bytes.
        IndexError: The bytes end inside the varint.
    """
    value = first & 0x7F
    shift = 7
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 or value >> 32:
                raise Irregularity
            return value, pos
        shift += 7
        if shift > 28:
            raise Irregularity


def write_uvarint(value: int) -> bytes:
    """Encode `value` (0 to 2^32 - 1) as an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


#: The uuids that Kafka reserves and never creates: zero and one.
RESERVED_UUIDS = frozenset({"AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"})


@functools.lru_cache(maxsize=8192)
def uuid_text(raw: bytes) -> str:
    """Format sixteen bytes as Kafka prints a uuid: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw)[:22].decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """Return the sixteen bytes of a uuid in Kafka's text form.

    Raises:
        ValueError: The text is not 22 characters of URL-safe base64.
    """
    raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a uuid")
    return raw


def escape_surrogates(text: str) -> str:
    r"""Escape lone surrogates in `text`: as ``\xff`` if they represent invalid UTF-8, otherwise as ``\ud800``.

    The latter come from escapes in JSON, e.g. where a program cut an emoji in two.
    """
    try:
        return text.encode("utf-8", TEXT_ERRORS).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
