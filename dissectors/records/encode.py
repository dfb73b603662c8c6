"""Encode batches: the inverse of `dissectors.records.decode`, for the broker, replay and tests."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import google_crc32c

from dissectors.records.batch import CRC_START, HEADER
from dissectors.records.compression import CODECS, compress
from dissectors.records.formats import CONTROL, DELETE_HORIZON, LOG_OVERHEAD, TIMESTAMP_TYPE, TRANSACTIONAL
from dissectors.records.varint import write_zigzag
from dissectors.wire.errors import EncodeError
from dissectors.wire.primitives import TEXT_ERRORS

Values = Mapping[str, Any]


def encode(batches: Iterable[Values]) -> bytes:
    """Encode batches as returned by `decode`; their keys may be left out.

    By default, a batch has format 2, no compression, offsets and timestamps relative to its base (0 and -1), and no
    producer. Lengths, counts and the CRC are computed; if ``crc_valid`` is False, the CRC is written unchanged. In
    formats 0 and 1 a compressed batch is one message that wraps its records; an uncompressed one has a message per
    record.

    Raises:
        EncodeError: A value does not fit the format, or an entry is not a batch (`truncated`, `unread`).
    """
    return b"".join(_encode_batch(batch, str(index)) for index, batch in enumerate(batches))


def _encode_batch(batch: Values, name: str) -> bytes:
    if "truncated" in batch or "unread" in batch:
        raise EncodeError("not a whole batch", path=(name,))
    magic = batch.get("magic", 2)
    compression = batch.get("compression", "none")
    if magic not in (0, 1, 2):
        raise EncodeError(f"record format {magic} does not exist", path=(name, "magic"))
    if compression not in CODECS[: None if magic == 2 else 4]:
        raise EncodeError(f"compression {compression} does not exist in format {magic}", path=(name, "compression"))
    try:
        return _encode_batch_v2(batch) if magic == 2 else _encode_message_set(batch, magic)
    except (struct.error, KeyError, TypeError, AttributeError, UnicodeError) as error:
        raise EncodeError(f"{type(error).__name__}: {error}", path=(name,)) from None


def _encode_batch_v2(batch: Values) -> bytes:
    records: Sequence[Values] = batch.get("records", ())
    base_offset = batch.get("base_offset", 0)
    base_timestamp = batch.get("base_timestamp", records[0].get("timestamp", -1) if records else -1)
    last_delta, max_timestamp = -1, base_timestamp
    payload = bytearray()
    for index, record in enumerate(records):
        last_delta = record.get("offset", base_offset + index) - base_offset
        timestamp = record.get("create_timestamp", record.get("timestamp", base_timestamp))
        max_timestamp = max(max_timestamp, timestamp)
        body = _encode_record(record, timestamp - base_timestamp, last_delta)
        payload += write_zigzag(len(body)) + body
    codec = CODECS.index(batch.get("compression", "none"))
    compressed = compress(codec, bytes(payload)) if codec else bytes(payload)
    attributes = (
        codec
        | TIMESTAMP_TYPE * (batch.get("timestamp_type") == "LogAppendTime")
        | TRANSACTIONAL * bool(batch.get("is_transactional"))
        | CONTROL * bool(batch.get("is_control"))
        | DELETE_HORIZON * ("delete_horizon_ms" in batch)
    )
    header = HEADER.pack(
        base_offset,
        HEADER.size - LOG_OVERHEAD + len(compressed),
        batch.get("partition_leader_epoch", -1),
        2,
        0,
        attributes,
        batch.get("last_offset_delta", last_delta),
        batch.get("delete_horizon_ms", base_timestamp),
        batch.get("max_timestamp", max_timestamp),
        batch.get("producer_id", -1),
        batch.get("producer_epoch", -1),
        batch.get("base_sequence", -1),
        len(records),
    )
    covered = header[CRC_START:] + compressed
    return header[: CRC_START - 4] + _encode_crc(batch, google_crc32c.value(covered)) + covered


def _encode_record(record: Values, timestamp_delta: int, offset_delta: int) -> bytes:
    out = bytearray(1)  # attributes
    out += write_zigzag(timestamp_delta) + write_zigzag(offset_delta)
    out += _length_prefixed(record.get("key")) + _length_prefixed(record.get("value"))
    headers = record.get("headers", ())
    out += write_zigzag(len(headers))
    for header in headers:
        out += _length_prefixed(header["key"].encode("utf-8", TEXT_ERRORS)) + _length_prefixed(header["value"])
    return bytes(out)


def _length_prefixed(data: bytes | None) -> bytes:
    return write_zigzag(-1) if data is None else write_zigzag(len(data)) + data


def _encode_message_set(batch: Values, magic: int) -> bytes:
    records: Sequence[Values] = batch.get("records", ())
    base_offset = batch.get("base_offset", 0)
    offsets = [record.get("offset", base_offset + index) for index, record in enumerate(records)]
    codec = CODECS.index(batch.get("compression", "none"))
    timestamp_flag = TIMESTAMP_TYPE * (batch.get("timestamp_type") == "LogAppendTime")
    if codec == 0:
        crc_source = batch if len(records) == 1 else {}  # if there is only one message, the batch's CRC is its CRC
        return b"".join(
            _encode_message(
                magic, offset, timestamp_flag, record.get("timestamp", -1), {**record, **_crc_values(crc_source)}
            )
            for offset, record in zip(offsets, records, strict=True)
        )
    first_offset = offsets[0] if magic == 1 and offsets else 0  # offsets in a wrapper of format 1 are relative (KIP-31)
    timestamps = [record.get("create_timestamp", record.get("timestamp", -1)) for record in records]
    messages = b"".join(
        _encode_message(magic, offset - first_offset, 0, timestamp, record)
        for offset, timestamp, record in zip(offsets, timestamps, records, strict=True)
    )
    value = compress(codec, messages, magic=magic)
    last_offset = batch.get("last_offset", offsets[-1] if offsets else base_offset)
    max_timestamp = batch.get("max_timestamp", max(timestamps, default=-1))
    return _encode_message(
        magic, last_offset, codec | timestamp_flag, max_timestamp, {"value": value, **_crc_values(batch)}
    )


def _crc_values(values: Values) -> Values:
    return {name: values[name] for name in ("crc", "crc_valid") if name in values}


def _encode_message(magic: int, offset: int, attributes: int, timestamp: int, values: Values) -> bytes:
    out = struct.pack(">bb", magic, attributes)
    if magic == 1:
        out += struct.pack(">q", timestamp)
    for data in (values.get("key"), values.get("value")):
        out += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qi", offset, len(out) + 4) + _encode_crc(values, zlib.crc32(out)) + out


def _encode_crc(values: Values, computed: int) -> bytes:
    return struct.pack(">I", computed if values.get("crc_valid", True) else values["crc"])
