"""Signed (zigzag) varints, as records of format 2 write their lengths and deltas."""

from __future__ import annotations

from dissectors.wire.primitives import Irregularity, write_uvarint

#: What each one-byte varint means, so that the commonest case is one look-up.
ONE_BYTE = tuple((raw >> 1) ^ -(raw & 1) for raw in range(128))


def read_zigzag(data: bytes, pos: int, bits: int = 32) -> tuple[int, int]:
    """The varint (32 bits) or varlong (64 bits) at `pos`; (value, next position).

    Raises:
        Irregularity: The value takes more than `bits` bits.
        IndexError: The bytes end inside it.
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
    """`value` (any that fits 64 bits) as a varint or varlong: they differ in range alone."""
    return write_uvarint((value << 1) ^ (value >> 63))
