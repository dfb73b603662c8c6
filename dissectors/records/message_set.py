"""Message sets: messages of formats 0 and 1, and compressed messages that wrap others."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from dissectors.records.allowance import WALKED_RECORD_STEPS
from dissectors.records.compression import CODECS, Decompressor, codec_name
from dissectors.records.cursor import Cursor
from dissectors.records.formats import TIMESTAMP_TYPE, count_text, entries, sentence, timestamp_type
from dissectors.wire.errors import DecodeError
from dissectors.wire.node import Node

#: Offset of the magic, from which the CRC is computed.
CRC_START = 16

_HEADER_FIELDS = (("offset", "q"), ("message_size", "i"), ("crc", "I"), ("magic", "b"), ("attributes", "b"))

Fields = dict[str, Node]


def decode_message(data: bytes, start: int, end: int, decompressor: Decompressor) -> dict[str, Any]:
    """Decode the outermost message in ``data[start:end]`` as `dissectors.records.decode` does."""
    cursor = Cursor(data, start, end)
    messages: list[Fields] = []
    error: DecodeError | None = None
    allowance, is_cut = decompressor.allowance, False
    try:
        for message in walk_message(cursor, decompressor):
            if allowance is not None:
                if is_cut := allowance.is_spent:
                    break
                allowance.charge(allowance.record_cost + WALKED_RECORD_STEPS)
            messages.append(message)
    except DecodeError as decode_error:
        error = decode_error
    outer = {node.name: node for node in cursor.nodes}
    magic, attributes, offset = outer["magic"].value, outer["attributes"].value, outer["offset"].value
    offset_shift = 0
    if magic == 1 and attributes & 7 and messages and error is None and not is_cut:
        offset_shift = _offset_shift(offset, messages[-1]["offset"].value)
    append_time = outer["timestamp"].value if magic == 1 and attributes & TIMESTAMP_TYPE else None
    records = [_record_values(message, offset_shift, append_time, wrapped=attributes & 7 != 0) for message in messages]
    batch = {
        "base_offset": records[0]["offset"] if records else offset,
        "last_offset": offset,
        "batch_length": outer["message_size"].value,
        "magic": magic,
        "crc": outer["crc"].value,
        "crc_valid": outer["crc"].meaning == "valid",
        "compression": codec_name(attributes),
    }
    if magic == 1:
        batch |= {"timestamp_type": timestamp_type(attributes), "max_timestamp": outer["timestamp"].value}
    batch["records"] = records
    if is_cut:
        batch["records_left_out"] = None if attributes & 7 else 1  # the number of messages in a wrapper is unknown
    if error is not None:
        batch["error"] = sentence(error)
    return batch


def walk_message(cursor: Cursor, decompressor: Decompressor, *, wrapped: bool = False) -> Iterator[Fields]:
    """Walk a message up to the end of the cursor's bytes; yield each complete message that holds a record.

    That is the message itself or, if it is compressed, each of the messages inside it.

    Raises:
        DecodeError: At the field that could not be read.
    """
    start = cursor.pos
    fields = walk_header(cursor)
    attributes = fields["attributes"]
    computed = zlib.crc32(cursor.data[start + CRC_START : cursor.end])
    fields["crc"].meaning = "valid" if computed == fields["crc"].value else f"computed 0x{computed:08x}"
    attributes.meaning = codec_name(attributes.value)
    if fields["magic"].value == 1:
        attributes.meaning += f", {timestamp_type(attributes.value)}"
    fields["key"] = cursor.read_bytes("key", varint=False)
    value_start = cursor.pos
    fields["value"] = value = cursor.read_bytes("value", varint=False)
    if remaining := cursor.end - cursor.pos:
        raise cursor.error_at(f"{count_text(remaining, 'byte')} left after the value", cursor.pos, "message_size")
    if attributes.value & 7 == 0:
        yield fields
    elif wrapped:
        raise cursor.error_at("a compressed message inside a compressed one", value_start, "value")
    else:
        try:
            yield from _walk_wrapped(cursor, fields, decompressor)
        except DecodeError as error:
            error.path = ("value", *error.path)
            raise
        finally:
            if value.children:
                value.value = None


def walk_header(cursor: Cursor) -> Fields:
    """Walk the fields before the key; return their nodes by name.

    Raises:
        DecodeError: The bytes end inside these fields.
    """
    fields = {name: cursor.read_integer(name, code) for name, code in _HEADER_FIELDS}
    if fields["magic"].value == 1:
        fields["timestamp"] = cursor.read_integer("timestamp", "q")
    return fields


def _walk_wrapped(cursor: Cursor, outer: Fields, decompressor: Decompressor) -> Iterator[Fields]:
    """Walk the messages in a compressed message; their nodes have the span of the wrapper's value."""
    value, magic, codec = outer["value"], outer["magic"].value, outer["attributes"].value & 7
    span = value.start, value.end
    value.meaning = codec_name(codec)
    if value.value is None:
        raise cursor.error_at("a compressed message without a value", value.start)
    if codec == CODECS.index("zstd"):
        raise cursor.error_at(f"zstd does not exist in record format {magic}", value.start)
    payload = decompressor.decompress(codec, value.value, offset=value.start, magic=magic)
    offset_nodes: list[Node] = []
    for index, entry in enumerate(entries(payload, 0, len(payload))):
        inner_cursor = Cursor(payload, entry.start, entry.end, span)
        inner_cursor.nodes = value.children
        with inner_cursor.struct(str(index)):
            if entry.fault:
                raise inner_cursor.error_at(entry.fault.message, entry.fault.offset, *entry.fault.path)
            if entry.magic is None:
                raise inner_cursor.error_at("decompressed bytes end inside this message", entry.start)
            if entry.magic == 2:
                raise inner_cursor.error_at(
                    "a batch of format 2 inside a compressed message", entry.start + CRC_START, "magic"
                )
            decompressor.charge_records(1, offset=value.start)
            for fields in walk_message(inner_cursor, decompressor, wrapped=True):
                offset_nodes.append(fields["offset"])
                yield fields
    if not offset_nodes:
        raise cursor.error_at("a compressed message with none inside", value.start)
    if magic == 1:
        wrapper_offset, last_offset = outer["offset"].value, offset_nodes[-1].value
        for node in offset_nodes:
            node.meaning = f"offset {node.value + _offset_shift(wrapper_offset, last_offset)}"
        if 0 != wrapper_offset < last_offset:
            message = f"offset {wrapper_offset} is below {last_offset}, the relative offset of the last message inside"
            raise cursor.error_at(message, value.start)


def _offset_shift(wrapper_offset: int, last_relative: int) -> int:
    """Return the number to add to offsets inside a wrapper of format 1, whose own offset is that of its last message.

    Some producers (librdkafka) leave the wrapper's offset at 0; Kafka then uses the inner offsets unchanged.
    """
    return wrapper_offset - last_relative if wrapper_offset else 0


def _record_values(message: Fields, offset_shift: int, append_time: int | None, *, wrapped: bool) -> dict[str, Any]:
    record = {"offset": message["offset"].value + offset_shift}
    if "timestamp" in message:
        record["timestamp"] = message["timestamp"].value
        if wrapped and append_time is not None:
            record |= {"timestamp": append_time, "create_timestamp": message["timestamp"].value}
    record |= {"key": message["key"].value, "value": message["value"].value}
    if wrapped and message["crc"].meaning != "valid":
        record |= {"crc": message["crc"].value, "crc_valid": False}
    return record
