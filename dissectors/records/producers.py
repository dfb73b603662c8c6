"""Replaces the producer in the headers of record batches."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import google_crc32c

from dissectors.records.batch import CRC_START, HEADER
from dissectors.records.formats import entries

#: Offset of the producer id, its epoch and the base sequence in a batch of format 2.
PRODUCER_AT: Final = 43
_PRODUCER: Final = struct.Struct(">qh")
_CRC: Final = struct.Struct(">I")


def replace_producers(data: bytes | memoryview, replace: Callable[[int, int], tuple[int, int]]) -> bytes:
    """Record data with other producers; everything else, compressed records too, stays as it is.

    Args:
        data: The record data of one partition. Formats 0 and 1 have no producer.
        replace: From the id and epoch of a batch to those to write.

    A CRC is computed anew, unless it was wrong before. Never raises on any bytes.
    """
    made = bytearray(data)
    for entry in entries(data, 0, len(data)):
        if entry.magic != 2 or entry.end - entry.start < HEADER.size:
            continue
        producer = _PRODUCER.unpack_from(made, entry.start + PRODUCER_AT)
        if (other := replace(*producer)) == producer:
            continue
        covered = slice(entry.start + CRC_START, entry.end)
        crc_at = entry.start + CRC_START - 4
        was_valid = _CRC.unpack_from(made, crc_at)[0] == google_crc32c.value(bytes(made[covered]))
        _PRODUCER.pack_into(made, entry.start + PRODUCER_AT, *other)
        if was_valid:
            _CRC.pack_into(made, crc_at, google_crc32c.value(bytes(made[covered])))
    return bytes(made)
