"""Record batches of format 2: decoded to values on a fast path, or walked with the span of every field."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

import google_crc32c

from dissectors.records.allowance import WALKED_RECORD_STEPS
from dissectors.records.compression import Decompressor, codec_name
from dissectors.records.control import read_control_key
from dissectors.records.cursor import Cursor
from dissectors.records.fast_path import read_records
from dissectors.records.formats import (
    CONTROL,
    DELETE_HORIZON,
    TIMESTAMP_TYPE,
    TRANSACTIONAL,
    count_text,
    sentence,
    timestamp_type,
)
from dissectors.wire.errors import DecodeError
from dissectors.wire.node import Node
from dissectors.wire.primitives import TEXT_ERRORS, Irregularity

#: The header fields in wire order, with `struct` codes.
HEADER_FIELDS = (
    ("base_offset", "q"),
    ("batch_length", "i"),
    ("partition_leader_epoch", "i"),
    ("magic", "b"),
    ("crc", "I"),
    ("attributes", "h"),
    ("last_offset_delta", "i"),
    ("base_timestamp", "q"),
    ("max_timestamp", "q"),
    ("producer_id", "q"),
    ("producer_epoch", "h"),
    ("base_sequence", "i"),
    ("records_count", "i"),
)
HEADER = struct.Struct(">" + "".join(code for _, code in HEADER_FIELDS))

#: Offset of the attributes, from which the CRC is computed.
CRC_START = 21

_NAMES = tuple(name for name, _ in HEADER_FIELDS)
_MAX_INT32 = 2**31 - 1


def decode_batch(data: bytes, start: int, end: int, decompressor: Decompressor) -> dict[str, Any]:
    """Decode the batch in ``data[start:end]`` as `dissectors.records.decode` does. Its header must be complete."""
    header = dict(zip(_NAMES, HEADER.unpack_from(data, start), strict=True))
    attributes, base_offset = header["attributes"], header["base_offset"]
    batch = {
        "base_offset": base_offset,
        "last_offset": base_offset + header["last_offset_delta"],
        "batch_length": header["batch_length"],
        "partition_leader_epoch": header["partition_leader_epoch"],
        "magic": 2,
        "crc": header["crc"],
        "crc_valid": google_crc32c.value(data[start + CRC_START : end]) == header["crc"],
        "compression": codec_name(attributes),
        "timestamp_type": timestamp_type(attributes),
        "is_transactional": attributes & TRANSACTIONAL != 0,
        "is_control": attributes & CONTROL != 0,
        "last_offset_delta": header["last_offset_delta"],
        "base_timestamp": header["base_timestamp"],
        "max_timestamp": header["max_timestamp"],
        "producer_id": header["producer_id"],
        "producer_epoch": header["producer_epoch"],
        "base_sequence": header["base_sequence"],
    }
    if attributes & DELETE_HORIZON:
        batch["delete_horizon_ms"] = header["base_timestamp"]
    batch["records"] = []
    allowance, count = decompressor.allowance, header["records_count"]
    if allowance is not None and count > 0 and allowance.is_spent:
        return batch | {"records_left_out": count}
    try:
        span = start + HEADER.size, end
        payload = _decompress_payload(data, *span, header, decompressor)
        max_records = count if allowance is None else allowance.take_records(count)
        try:
            batch["records"] = read_records(payload, header, max_records)
        except (Irregularity, IndexError):
            cursor = Cursor(payload, 0, len(payload), span if attributes & 7 else None)
            nodes = walk_records(cursor, header)
            for record in nodes if max_records >= count else islice(nodes, max_records):
                batch["records"].append(_record_values(record, header))
                if allowance is not None:
                    allowance.charge(WALKED_RECORD_STEPS)
                    if allowance.is_spent:
                        break
        if count > (read_count := len(batch["records"])):
            batch["records_left_out"] = count - read_count
    except DecodeError as error:
        error.path = ("records", *error.path)
        batch["error"] = sentence(error)
    _add_optional_values(batch["records"], attributes, header)
    return batch


def walk_batch(cursor: Cursor, decompressor: Decompressor) -> None:
    """Walk a batch up to the end of the cursor's bytes.

    Raises:
        DecodeError: At the field that could not be read.
    """
    header = begin_batch(cursor)
    with cursor.struct("records") as node:
        for _ in walk_records(open_records(cursor, node, header, decompressor), header):
            pass


def begin_batch(cursor: Cursor) -> dict[str, Any]:
    """Walk the fields before the records; return their values by name.

    Raises:
        DecodeError: The bytes end inside the header.
    """
    start = cursor.pos
    nodes = walk_header(cursor)
    header = {name: node.value for name, node in nodes.items()}
    computed = google_crc32c.value(cursor.data[start + CRC_START : cursor.end])
    nodes["crc"].meaning = "valid" if computed == header["crc"] else f"computed 0x{computed:08x}"
    nodes["attributes"].meaning = describe_attributes(header["attributes"])
    nodes["last_offset_delta"].meaning = f"last offset {header['base_offset'] + header['last_offset_delta']}"
    return header


def open_records(cursor: Cursor, node: Node, header: dict[str, Any], decompressor: Decompressor) -> Cursor:
    """Return a cursor over the records in `node`: the same cursor, or a new one over the decompressed bytes.

    Raises:
        DecodeError: Decompression failed; the value of `node` is then the compressed bytes.
    """
    if header["attributes"] & 7 == 0:
        return cursor
    span = cursor.pos, cursor.end
    node.meaning = codec_name(header["attributes"])
    node.value = cursor.data[slice(*span)]
    cursor.pos = cursor.end
    payload = _decompress_payload(cursor.data, *span, header, decompressor)
    node.value = None
    records_cursor = Cursor(payload, 0, len(payload), span)
    records_cursor.nodes = node.children
    return records_cursor


def walk_header(cursor: Cursor) -> dict[str, Node]:
    """Walk the fields before the records; return their nodes by name.

    Raises:
        DecodeError: The bytes end inside the header.
    """
    return {name: cursor.read_integer(name, code) for name, code in HEADER_FIELDS}


def walk_records(cursor: Cursor, header: dict[str, Any]) -> Iterator[Node]:
    """Walk the records; yield the node of each complete one.

    Raises:
        DecodeError: At the field that could not be read, or if there are too few or too many records.
    """
    count = header["records_count"]
    if count < 0:
        raise cursor.error_at(f"count is {count}", cursor.pos)
    for index in range(count):
        if cursor.pos == cursor.end:
            raise cursor.error_at(f"bytes end after {index} of {count_text(count, 'record')}", cursor.pos)
        with cursor.struct(str(index)) as node:
            _walk_record(cursor, header)
        yield node
    if remaining := cursor.end - cursor.pos:
        raise cursor.error_at(f"{count_text(remaining, 'byte')} left after {count_text(count, 'record')}", cursor.pos)


def describe_attributes(attributes: int) -> str:
    """Return the codec, timestamp type and flags as text."""
    words = [codec_name(attributes), timestamp_type(attributes)]
    flags = ((TRANSACTIONAL, "transactional"), (CONTROL, "control"), (DELETE_HORIZON, "delete horizon set"))
    return ", ".join(words + [name for bit, name in flags if attributes & bit])


def _walk_record(cursor: Cursor, header: dict[str, Any]) -> None:
    start = cursor.pos
    size = cursor.read_varint("length").value
    remaining = cursor.end - cursor.pos
    if size < 0:
        raise cursor.error_at(f"length is {size}", start, "length")
    if size > remaining:
        raise cursor.error_at(f"length {size} does not fit: {count_text(remaining, 'byte')} left", start, "length")
    outer_end, cursor.end = (
        cursor.end,
        cursor.pos + size,
    )  # not restored after an error, because an error ends the batch
    cursor.read_integer("attributes", "b")
    timestamp_delta = cursor.read_varint("timestamp_delta", 64)
    timestamp_delta.meaning = str(header["base_timestamp"] + timestamp_delta.value)
    offset_delta = cursor.read_varint("offset_delta")
    offset_delta.meaning = f"offset {header['base_offset'] + offset_delta.value}"
    key = cursor.read_bytes("key")
    if header["attributes"] & CONTROL:
        key.meaning = read_control_key(key.value)["type"]
    cursor.read_bytes("value")
    count_start = cursor.pos
    count = cursor.read_varint("headers_count").value
    if count < 0:
        raise cursor.error_at(f"count is {count}", count_start, "headers_count")
    if count:
        with cursor.struct("headers"):
            for index in range(count):
                if cursor.pos == cursor.end:
                    raise cursor.error_at(f"record ends after {index} of {count_text(count, 'header')}", cursor.pos)
                with cursor.struct(str(index)):
                    name = cursor.read_bytes("key", nullable=False)
                    name.value = name.value.decode("utf-8", TEXT_ERRORS)
                    cursor.read_bytes("value")
    if cursor.pos != cursor.end:
        spare_bytes = count_text(cursor.end - cursor.pos, "byte")
        raise cursor.error_at(f"length {size} is {spare_bytes} more than the fields take", start, "length")
    cursor.end = outer_end


def _decompress_payload(data: bytes, start: int, end: int, header: dict[str, Any], decompressor: Decompressor) -> bytes:
    """Return the decompressed bytes of the records."""
    codec = header["attributes"] & 7
    if codec == 0:
        return data[start:end]
    payload = decompressor.decompress(codec, data[start:end], offset=start)
    decompressor.charge_records(max(0, header["records_count"]), offset=start)
    return payload


def _record_values(node: Node, header: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a walked record as `read_records` does."""
    fields = {child.name: child for child in node.children}
    headers = fields["headers"].children if "headers" in fields else []
    return {
        "offset": header["base_offset"] + fields["offset_delta"].value,
        "timestamp": header["base_timestamp"] + fields["timestamp_delta"].value,
        "key": fields["key"].value,
        "value": fields["value"].value,
        "headers": [{"key": key.value, "value": value.value} for key, value in (header.children for header in headers)],
    }


def _add_optional_values(records: list[dict[str, Any]], attributes: int, header: dict[str, Any]) -> None:
    """Add the values that only some batches have: sequences, the producer's timestamps, control types."""
    base_sequence = header["base_sequence"]
    if base_sequence >= 0:
        sequence_shift = base_sequence - header["base_offset"]
        for record in records:
            record["sequence"] = (record["offset"] + sequence_shift) & _MAX_INT32
    if attributes & TIMESTAMP_TYPE:
        for record in records:
            record["create_timestamp"] = record["timestamp"]
            record["timestamp"] = header["max_timestamp"]
    if attributes & CONTROL:
        for record in records:
            record["control"] = read_control_key(record["key"])
