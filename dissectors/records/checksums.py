"""Recognise other checksums written instead of the correct CRC."""

from __future__ import annotations

import zlib

import google_crc32c

from dissectors.records import batch, message_set
from dissectors.records.batch_headers import PRODUCER_AT
from dissectors.records.formats import CONTROL, TIMESTAMP_TYPE, TRANSACTIONAL

_CASTAGNOLI, _IEEE = "CRC-32C (Castagnoli)", "CRC-32 (IEEE, as in zlib)"
_ALL_BITS = 0xFFFFFFFF
_NO_PRODUCER = b"\xff" * 14


def find_checksum_variant(data: bytes, magic: int, crc: int) -> str | None:
    """Describe how `crc` was computed; return None if no common variant matches.

    Both polynomials are tried, over the bytes that the CRC covers and over bytes that it is often believed to cover,
    also with reversed byte order or inverted bits.
    """
    crc_end = batch.CRC_START if magic == 2 else message_set.CRC_START
    crc_start = crc_end - 4
    ranges = {
        "": data[crc_end:],
        " from the CRC on, itself taken as 0": bytes(4) + data[crc_end:],
        " of the whole batch, the CRC taken as 0": data[:crc_start] + bytes(4) + data[crc_end:],
        " of the whole batch without the CRC": data[:crc_start] + data[crc_end:],
    }
    if magic == 2:
        ranges |= {
            " from the magic on": data[16:crc_start] + data[crc_end:],
            " from the magic on, the CRC taken as 0": data[16:crc_start] + bytes(4) + data[crc_end:],
            " from the leader epoch on": data[12:crc_start] + data[crc_end:],
            " from the leader epoch on, the CRC taken as 0": data[12:crc_start] + bytes(4) + data[crc_end:],
            " of the records alone": data[batch.HEADER.size :],
        }
    for range_name, covered in ranges.items():
        for name, value in ((_CASTAGNOLI, google_crc32c.value(covered)), (_IEEE, zlib.crc32(covered))):
            if crc == value:
                return name + range_name
            if crc == int.from_bytes(value.to_bytes(4, "big"), "little"):
                return f"{name}{range_name} with its bytes in reverse order"
            if crc == value ^ _ALL_BITS:
                return f"{name}{range_name} without the final inversion"
    return None


def find_header_variant(data: bytes, crc: int) -> str | None:
    """Return the change of a header of format 2 that would make `crc` valid, with the same records; None if none would.

    Brokers create such batches when they set a header field without updating the CRC, or combine the header of one
    batch with the CRC of another.
    """
    attributes = int.from_bytes(data[batch.CRC_START : batch.CRC_START + 2], "big")
    variants = {
        f"the timestamp type {'CreateTime' if attributes & TIMESTAMP_TYPE else 'LogAppendTime'}": attributes
        ^ TIMESTAMP_TYPE,
        f"the transactional bit {'cleared' if attributes & TRANSACTIONAL else 'set'}": attributes ^ TRANSACTIONAL,
        f"the control bit {'cleared' if attributes & CONTROL else 'set'}": attributes ^ CONTROL,
    }
    for name, value in variants.items():
        if google_crc32c.value(value.to_bytes(2, "big") + data[batch.CRC_START + 2 :]) == crc:
            return name
    without_producer = data[batch.CRC_START : PRODUCER_AT] + _NO_PRODUCER + data[PRODUCER_AT + len(_NO_PRODUCER) :]
    return "no producer id, epoch and sequence" if google_crc32c.value(without_producer) == crc else None
