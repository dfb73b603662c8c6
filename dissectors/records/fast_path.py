"""Decode the records of a batch of format 2 to values: the hot path of decoding."""

from __future__ import annotations

from typing import Any

from dissectors.records.varint import ONE_BYTE, read_zigzag
from dissectors.wire.primitives import TEXT_ERRORS, Irregularity


def read_records(data: bytes, header: dict[str, Any], max_records: int | None = None) -> list[dict[str, Any]]:
    """Decode all records, or the first `max_records`.

    Any irregularity raises Irregularity or IndexError; the slow path then reports what is wrong. Positions only grow,
    so comparing them with the end of the record and the end of the data detects overruns.
    """
    base_offset, base_timestamp = header["base_offset"], header["base_timestamp"]
    records: list[dict[str, Any]] = []
    add_record = records.append
    one_byte = ONE_BYTE
    pos = 0
    count = header["records_count"] if max_records is None else min(max_records, header["records_count"])
    for _ in range(count):
        if (size := data[pos]) < 0x80:
            size = one_byte[size]
            pos += 1
        else:
            size, pos = read_zigzag(data, pos)
        end = pos + size
        pos += 1  # attributes, unused
        if (timestamp_delta := data[pos]) < 0x80:
            timestamp_delta = one_byte[timestamp_delta]
            pos += 1
        else:
            timestamp_delta, pos = read_zigzag(data, pos, 64)
        if (offset_delta := data[pos]) < 0x80:
            offset_delta = one_byte[offset_delta]
            pos += 1
        else:
            offset_delta, pos = read_zigzag(data, pos)
        if (size := data[pos]) < 0x80:
            size = one_byte[size]
            pos += 1
        else:
            size, pos = read_zigzag(data, pos)
        if size >= 0:
            key = data[pos : pos + size]
            pos += size
        elif size == -1:
            key = None
        else:
            raise Irregularity
        if (size := data[pos]) < 0x80:
            size = one_byte[size]
            pos += 1
        else:
            size, pos = read_zigzag(data, pos)
        if size >= 0:
            value = data[pos : pos + size]
            pos += size
        elif size == -1:
            value = None
        else:
            raise Irregularity
        if data[pos] == 0:
            headers: list[dict[str, Any]] = []
            pos += 1
        else:
            headers, pos = _read_headers(data, pos)
        if pos != end:
            raise Irregularity
        add_record(
            {
                "offset": base_offset + offset_delta,
                "timestamp": base_timestamp + timestamp_delta,
                "key": key,
                "value": value,
                "headers": headers,
            }
        )
    if header["records_count"] < 0 or (pos != len(data) and count == header["records_count"]):
        raise Irregularity
    return records


def _read_headers(data: bytes, pos: int) -> tuple[list[dict[str, Any]], int]:
    headers: list[dict[str, Any]] = []
    count, pos = read_zigzag(data, pos)
    if count < 0:
        raise Irregularity
    for _ in range(count):
        size, pos = read_zigzag(data, pos)
        if size < 0:
            raise Irregularity
        key = data[pos : pos + size].decode("utf-8", TEXT_ERRORS)
        pos += size
        size, pos = read_zigzag(data, pos)
        if size < -1:
            raise Irregularity
        headers.append({"key": key, "value": None if size < 0 else data[pos : pos + size]})
        pos += max(size, 0)
    return headers, pos
