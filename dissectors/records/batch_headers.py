"""Change the headers of record batches of format 2; their records, compressed or not, stay as they are.

A CRC is recomputed unless it was wrong before. No bytes make these functions raise. Formats 0 and 1 stay unchanged.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import google_crc32c

from dissectors.records.batch import CRC_START, HEADER
from dissectors.records.formats import entries

#: Offset of the producer id, which its epoch and the base sequence follow.
PRODUCER_AT: Final = 43
_PRODUCER: Final = struct.Struct(">qh")
#: Offset of the base timestamp, which the maximum timestamp follows.
_TIMES_AT: Final = 27
_TIMES: Final = struct.Struct(">qq")
_CRC: Final = struct.Struct(">I")
_MAX_TIME: Final = (1 << 63) - 1


def replace_producers(data: bytes | memoryview, replace: Callable[[int, int], tuple[int, int]]) -> bytes:
    """Replace the producers in record data. `replace` gets the id and epoch of a batch and returns the new ones."""
    return _change_headers(data, PRODUCER_AT, _PRODUCER, replace)


def shift_times(data: bytes | memoryview, ms: int) -> bytes:
    """Shift the timestamps in record data by `ms`. Batches without timestamps (-1) stay unchanged."""

    def shift_pair(base: int, maximum: int) -> tuple[int, int]:
        if base < 0 or maximum < 0:
            return base, maximum
        return tuple(max(0, min(time + ms, _MAX_TIME)) for time in (base, maximum))  # type: ignore[return-value]

    return _change_headers(data, _TIMES_AT, _TIMES, shift_pair)


def _change_headers(
    data: bytes | memoryview, offset: int, fields: struct.Struct, change: Callable[[int, int], tuple[int, int]]
) -> bytes:
    result = bytearray(data)
    for entry in entries(data, 0, len(data)):
        if entry.magic != 2 or entry.end - entry.start < HEADER.size:
            continue
        old_values = fields.unpack_from(result, entry.start + offset)
        if (new_values := change(*old_values)) == old_values:
            continue
        covered = slice(entry.start + CRC_START, entry.end)
        crc_start = entry.start + CRC_START - _CRC.size
        was_valid = _CRC.unpack_from(result, crc_start)[0] == google_crc32c.value(bytes(result[covered]))
        fields.pack_into(result, entry.start + offset, *new_values)
        if was_valid:
            _CRC.pack_into(result, crc_start, google_crc32c.value(bytes(result[covered])))
    return bytes(result)
