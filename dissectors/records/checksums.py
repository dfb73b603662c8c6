"""Recognises other checksums in place of the right CRC."""

from __future__ import annotations

import zlib

import google_crc32c

from dissectors.records import batch, message_set

_CASTAGNOLI, _IEEE = "CRC-32C (Castagnoli)", "CRC-32 (IEEE, as in zlib)"
_ALL_BITS = 0xFFFFFFFF


def other_checksum(data: bytes, magic: int, crc: int) -> str | None:
    """A description of what `crc` was computed over; None if no common variant matches.

    Tried are both polynomials, over the bytes that the CRC covers and over those it is often believed to cover, with
    reversed byte order or inverted bits.
    """
    right = batch.CRC_START if magic == 2 else message_set.CRC_START
    field = right - 4
    ranges = {
        "": data[right:],
        " from the CRC on, itself taken as 0": bytes(4) + data[right:],
        " of the whole batch, the CRC taken as 0": data[:field] + bytes(4) + data[right:],
        " of the whole batch without the CRC": data[:field] + data[right:],
    }
    if magic == 2:
        ranges |= {
            " from the magic on": data[16:field] + data[right:],
            " from the magic on, the CRC taken as 0": data[16:field] + bytes(4) + data[right:],
            " from the leader epoch on": data[12:field] + data[right:],
            " from the leader epoch on, the CRC taken as 0": data[12:field] + bytes(4) + data[right:],
            " of the records alone": data[batch.HEADER.size :],
        }
    for where, covered in ranges.items():
        for name, value in ((_CASTAGNOLI, google_crc32c.value(covered)), (_IEEE, zlib.crc32(covered))):
            if crc == value:
                return name + where
            if crc == int.from_bytes(value.to_bytes(4, "big"), "little"):
                return f"{name}{where} with its bytes in reverse order"
            if crc == value ^ _ALL_BITS:
                return f"{name}{where} without the final inversion"
    return None
