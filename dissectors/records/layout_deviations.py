"""Recognise records of format 2 in wrong encodings, and write such records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import google_crc32c

from dissectors.records.batch import CRC_START, HEADER, HEADER_FIELDS
from dissectors.records.compression import Decompressor, compress
from dissectors.records.encode import encode
from dissectors.records.fast_path import read_records
from dissectors.records.formats import LOG_OVERHEAD, TIMESTAMP_TYPE
from dissectors.records.layout_variants import ENCODINGS, RecordLayout
from dissectors.records.varint import read_zigzag, write_zigzag
from dissectors.wire.errors import DecodeError
from dissectors.wire.primitives import TEXT_ERRORS, Irregularity, write_uvarint

#: Limits on decompressed bytes, and on records.
MAX_BYTES = 4 << 20
MAX_RECORDS = 10_000

_NULLS = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)  # -1 in 32 and in 64 bits, as unsigned varints


@dataclass(frozen=True, slots=True)
class Deviation:
    """An encoding in which all records of a batch can be read.

    `written` is the name of the encoding. `offset` is where the first wrong field begins, counted from the start of the
    batch, or the start of the compressed bytes. `size` is the size of that field, 0 if it is missing or compressed.
    """

    written: str
    offset: int
    size: int
    sentence: str


def deviations(batch: bytes) -> tuple[Deviation, ...]:
    """Return the wrong encodings in which the records of a batch can be read, most probable first.

    An encoding matches if it reads the stated number of records to the last byte, with increasing offsets. Several
    encodings may match. The result is empty for a batch that decodes or exceeds `MAX_BYTES` or `MAX_RECORDS`.

    Args:
        batch: A batch of format 2, from its base offset to its end.
    """
    if len(batch) < HEADER.size:
        return ()
    header = _header_values(batch)
    if not 0 < header["records_count"] <= MAX_RECORDS:
        return ()
    payload = batch[HEADER.size :]
    codec = header["attributes"] & 7
    try:
        if codec:
            payload = Decompressor(MAX_BYTES).decompress(codec, payload, offset=0)
        if len(payload) > MAX_BYTES:
            return ()
        read_records(payload, header)
    except DecodeError:
        return ()
    except (Irregularity, IndexError):
        pass
    else:
        return ()
    ranked_deviations = []
    for rank, (name, encoding) in enumerate(ENCODINGS.items()):
        try:
            is_doubtful, start, end = _read_records(payload, header, encoding)
        except (Irregularity, IndexError):
            continue
        location = (HEADER.size, 0) if codec else (HEADER.size + start, end - start)
        ranked_deviations.append((is_doubtful, rank, Deviation(name, *location, encoding.sentence)))
    return tuple(deviation for _, _, deviation in sorted(ranked_deviations, key=lambda item: item[:2]))


def write_deviating_batch(batch: Mapping[str, Any], written: str) -> bytes:
    """Encode a batch, given as for `dissectors.records.encode`, with its records in one of the `ENCODINGS`.

    The length and CRC are correct. An unsigned varint cannot encode null, which becomes the 32 bits of -1.

    Raises:
        EncodeError: A value does not fit the format.
        KeyError: The encoding is unknown.
    """
    encoding = ENCODINGS[written]
    data = encode([batch])
    header = _header_values(data)
    payload, codec = data[HEADER.size :], header["attributes"] & 7
    if codec:
        payload = Decompressor().decompress(codec, payload, offset=0)
    records_data = b"".join(_encode_record(record, header, encoding) for record in read_records(payload, header))
    if codec:
        records_data = compress(codec, records_data)
    header_bytes = bytearray(data[: HEADER.size])
    header_bytes[8:12] = (HEADER.size - LOG_OVERHEAD + len(records_data)).to_bytes(4, "big")
    header_bytes[CRC_START - 4 : CRC_START] = google_crc32c.value(
        bytes(header_bytes[CRC_START:]) + records_data
    ).to_bytes(4, "big")
    return bytes(header_bytes) + records_data


def _header_values(batch: bytes) -> dict[str, Any]:
    return {name: value for (name, _), value in zip(HEADER_FIELDS, HEADER.unpack_from(batch), strict=True)}


class _Reading(NamedTuple):
    is_doubtful: bool
    start: int
    end: int


def _read_records(data: bytes, header: dict[str, Any], encoding: RecordLayout) -> _Reading:
    """Read all records in an encoding. Return whether timestamps contradict it, and the span of the first wrong field.

    Raises:
        Irregularity, IndexError: The records are not in this encoding.
    """
    read_length, read_attributes = _READERS[encoding.length], _READERS[encoding.attributes]
    read_timestamp_delta, read_offset_delta = _READERS[encoding.timestamp_delta], _READERS[encoding.offset_delta]
    read_key_length, read_value_length = _READERS[encoding.key_length], _READERS[encoding.value_length]
    read_headers_count = _READERS[encoding.headers_count]
    data_size = len(data)
    latest_delta = header["max_timestamp"] - header["base_timestamp"]
    pos = 0
    last_offset_delta = largest_delta = -1
    first_deviation: tuple[int, int] | None = None
    for _ in range(header["records_count"]):
        start = pos
        size, pos = read_length(data, pos)
        body_start = start if encoding.length_counts_itself else pos
        attributes_start = pos
        attributes, pos = read_attributes(data, pos)
        timestamp_start = pos
        timestamp_delta, pos = read_timestamp_delta(data, pos)
        offset_start = pos
        offset_delta, pos = read_offset_delta(data, pos)
        key_start = pos
        key_size, key_length_end = read_key_length(data, pos)
        pos = key_length_end + max(key_size, 0)
        value_start = pos
        value_size, value_length_end = read_value_length(data, pos)
        pos = value_length_end + max(value_size, 0)
        headers_start = pos
        count, pos = read_headers_count(data, pos)
        count_end = pos
        if attributes or min(key_size, value_size) < -1 or not 0 <= count <= data_size or pos > data_size:
            raise Irregularity
        for _ in range(count):
            pos = _skip_header(data, pos, encoding)
        if pos > data_size or (encoding.length is not None and pos != body_start + size):
            raise Irregularity
        if encoding.offset_delta is not None:
            if offset_delta <= last_offset_delta:
                raise Irregularity
            last_offset_delta = offset_delta
        largest_delta = max(largest_delta, timestamp_delta)
        if first_deviation is None:
            first_deviation = {
                "length": (start, attributes_start),
                "attributes": (attributes_start, timestamp_start),
                "timestamp_delta": (timestamp_start, offset_start),
                "offset_delta": (offset_start, key_start),
                "key_length": (key_start, key_length_end),
                "value_length": (value_start, value_length_end),
                "headers_count": (headers_start, count_end),
            }[encoding.deviates]
    if pos != data_size or last_offset_delta > header["last_offset_delta"] or first_deviation is None:
        raise Irregularity
    is_doubtful = latest_delta == 0 if encoding.timestamp_delta is None else largest_delta != latest_delta
    return _Reading(is_doubtful and not header["attributes"] & TIMESTAMP_TYPE, *first_deviation)


def _skip_header(data: bytes, pos: int, encoding: RecordLayout) -> int:
    read_length = _READERS[encoding.header_length]
    size, pos = read_length(data, pos)
    if size < 0:
        raise Irregularity
    data[pos : pos + size].decode("utf-8", TEXT_ERRORS)
    size, pos = read_length(data, pos + size)
    if size < -1:
        raise Irregularity
    return pos + max(size, 0)


def _read_nothing(_: bytes, pos: int) -> tuple[int, int]:
    return 0, pos


def _read_zigzag(data: bytes, pos: int) -> tuple[int, int]:
    return read_zigzag(data, pos, 64)


def _read_unsigned(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (-1 if value in _NULLS else value), pos
        shift += 7
        if shift > 63:
            raise Irregularity


def _read_compact(data: bytes, pos: int) -> tuple[int, int]:
    value, pos = _read_unsigned(data, pos)
    return value - 1, pos


def _fixed_reader(size: int) -> Callable[[bytes, int], tuple[int, int]]:
    def read(data: bytes, pos: int) -> tuple[int, int]:
        end = pos + size
        if end > len(data):
            raise IndexError
        return int.from_bytes(data[pos:end], "big", signed=True), end

    return read


_READERS: dict[str | None, Callable[[bytes, int], tuple[int, int]]] = {
    None: _read_nothing,
    "zigzag": _read_zigzag,
    "unsigned": _read_unsigned,
    "compact": _read_compact,
    "int8": _fixed_reader(1),
    "int32": _fixed_reader(4),
    "int64": _fixed_reader(8),
}

_WRITERS: dict[str | None, Callable[[int], bytes]] = {
    None: lambda _: b"",
    "zigzag": write_zigzag,
    "unsigned": lambda value: write_uvarint(value & 0xFFFFFFFF if value < 0 else value),
    "compact": lambda value: write_uvarint(value + 1),
    "int8": lambda value: value.to_bytes(1, "big"),
    "int32": lambda value: value.to_bytes(4, "big", signed=True),
    "int64": lambda value: value.to_bytes(8, "big", signed=True),
}


def _encode_record(record: dict[str, Any], header: dict[str, Any], encoding: RecordLayout) -> bytes:
    body = _WRITERS[encoding.attributes](0)
    body += _WRITERS[encoding.timestamp_delta](record["timestamp"] - header["base_timestamp"])
    body += _WRITERS[encoding.offset_delta](record["offset"] - header["base_offset"])
    body += _length_prefixed(record["key"], encoding.key_length) + _length_prefixed(
        record["value"], encoding.value_length
    )
    if encoding.headers_count is not None:
        body += _WRITERS[encoding.headers_count](len(record["headers"]))
        for record_header in record["headers"]:
            body += _length_prefixed(record_header["key"].encode("utf-8", TEXT_ERRORS), encoding.header_length)
            body += _length_prefixed(record_header["value"], encoding.header_length)
    size = len(body)
    if encoding.length_counts_itself:
        size += next(length_size for length_size in range(1, 6) if len(write_zigzag(size + length_size)) == length_size)
    return _WRITERS[encoding.length](size) + body


def _length_prefixed(data: bytes | None, encoding: str) -> bytes:
    return _WRITERS[encoding](-1) if data is None else _WRITERS[encoding](len(data)) + data
