"""Signed (zigzag) varints: the lengths and deltas in records of format 2."""

from __future__ import annotations

from dissectors.wire.primitives import Irregularity, write_uvarint

#: The values of all one-byte varints, so that the most common case is one lookup.
ONE_BYTE = tuple((raw >> 1) ^ -(raw & 1) for raw in range(128))


def read_zigzag(data: bytes, pos: int, bits: int = 32) -> tuple[int, int]:
    """Read the varint (32 bits) or varlong (64 bits) at `pos`; return the value and the offset after it.

    Raises:
        Irregularity: The value takes more than `bits` bits.
        IndexError: The bytes end inside the varint.
    """
    raw = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> bits:
                raise Irregularity
            return (raw >> 1) ^ -(raw & 1), pos
        shift += 7
        if shift >= bits:
            raise Irregularity


def write_zigzag(value: int) -> bytes:
    """Encode `value` (up to 64 bits) as a varint or varlong, which differ only in range."""
    return write_uvarint((value << 1) ^ (value >> 63))
