"""Read record data, as values or as nodes with the span of every field."""

from __future__ import annotations

from typing import Any, NamedTuple

from dissectors.records import batch, message_set
from dissectors.records.allowance import Allowance
from dissectors.records.compression import DEFAULT_LIMIT, Decompressor
from dissectors.records.cursor import Cursor
from dissectors.records.formats import LOG_OVERHEAD, BatchEntry, entries, sentence
from dissectors.wire.errors import DecodeError
from dissectors.wire.node import Node

_MAGIC_AT = 16


class RecordsWalkResult(NamedTuple):
    """The batches as nodes, and the first error; a truncated end is not an error."""

    nodes: list[Node]
    error: DecodeError | None


def decode(
    data: bytes | memoryview, *, limit: int = DEFAULT_LIMIT, allowance: Allowance | None = None
) -> list[dict[str, Any]]:
    """Decode record data.

    Args:
        data: The value of a ``records`` field.
        limit: The limit on decompressed bytes; each compressed record counts as at least 256.
        allowance: The work that may be done, from which the work done is deducted. If it does not suffice, the
            `records` of a batch end early, and records_left_out is the number of missing records, None if unknown.

    Returns:
        One dictionary per batch. Never raises. Times are in ms, as Kafka sends them; -1 is none.

        Format 2: base_offset, last_offset, batch_length (as on the wire: without the first 12 bytes),
        partition_leader_epoch, magic, crc, crc_valid, compression (``none``, ``gzip``, ``snappy``, ``lz4``,
        ``zstd``, ``unknown(5)``), timestamp_type (``CreateTime``, ``LogAppendTime``), is_transactional, is_control,
        last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, records, and
        delete_horizon_ms if set. A record: offset, timestamp, key, value, headers ``[{"key": str, "value"}]``;
        sequence if the batch has sequences; create_timestamp, the producer's time, with LogAppendTime; control
        ``{"type", "version"}`` in control batches. Keys and values are bytes or None.

        Formats 0 and 1: an outermost message is a batch with its own record or the wrapped ones. It has base_offset,
        last_offset, batch_length, magic, crc, crc_valid, compression, in format 1 timestamp_type and max_timestamp,
        and records. A record: offset (absolute), in format 1 timestamp, key, value; crc and crc_valid only for a
        wrong CRC inside a wrapper; create_timestamp as above.

        Bad bytes: ``error`` is a sentence that names the field. `records` has the records before the error, in a
        wrapper of format 1 with their relative offsets. A truncated end, which Fetch allows, becomes a last entry with
        ``truncated`` (its size in bytes). Bytes in which no batch can be found become an entry with ``error`` and
        ``unread`` (their size in bytes). Both have base_offset, batch_length and magic if present, and so does a
        batch that is too short for its header.

    Source: Kafka's DefaultRecordBatch, AbstractLegacyRecordBatch, ByteBufferLogInputStream; KIP-31, KIP-32, KIP-98.
    """
    data = bytes(data)
    decompressor = Decompressor(limit, allowance)
    return [_decode_entry(data, entry, decompressor) for entry in entries(data, 0, len(data))]


def walk(frame: bytes, start: int, end: int, *, limit: int = DEFAULT_LIMIT) -> RecordsWalkResult:
    """Walk the record data in ``frame[start:end]``.

    Returns:
        One node per batch, named by its index; leaves cover every byte and have the field names of the wire format. If
        the data is cut off, the last node's `meaning` is ``truncated``, and a leaf ``truncated`` holds the bytes after
        its last complete field. A leaf ``unread`` follows an error. Children of compressed records have the span of the
        compressed bytes. Never raises. The offset of `error` counts from the start of `frame`; for an error inside
        compressed data, it is the offset of the compressed bytes.
    """
    decompressor = Decompressor(limit)
    nodes: list[Node] = []
    first_error: DecodeError | None = None
    for index, entry in enumerate(entries(frame, start, end)):
        node, error = walk_entry(frame, index, entry, decompressor)
        first_error = first_error or error
        nodes.append(node)
    return RecordsWalkResult(nodes, first_error)


def walk_entry(
    frame: bytes, index: int, entry: BatchEntry, decompressor: Decompressor
) -> tuple[Node, DecodeError | None]:
    """Return the node of one batch, as `walk` builds it, and the decode error, if any."""
    cursor = Cursor(frame, entry.start, entry.end)
    decode_error: DecodeError | None = None
    try:
        with cursor.struct(str(index)):
            _walk_fields(cursor, entry, decompressor)
    except DecodeError as error:
        decode_error = error
    [node] = cursor.nodes
    if entry.magic is None and entry.fault is None:
        node.meaning = "truncated"
    if cursor.pos < entry.end:
        unread = Node(node.meaning or "unread", cursor.pos, entry.end, frame[cursor.pos : entry.end])
        node.children.append(unread)
        node.end = entry.end
    return node, decode_error


def _decode_entry(data: bytes, entry: BatchEntry, decompressor: Decompressor) -> dict[str, Any]:
    if entry.magic == 2 and entry.end - entry.start >= batch.HEADER.size:
        return batch.decode_batch(data, entry.start, entry.end, decompressor)
    if entry.magic in (0, 1):
        return message_set.decode_message(data, entry.start, entry.end, decompressor)
    cursor = Cursor(data, entry.start, entry.end)
    extra: dict[str, Any] = {}
    try:
        _walk_fields(cursor, entry, decompressor)
    except DecodeError as error:
        extra = {"error": sentence(error)}
        if entry.fault:
            extra["unread"] = entry.end - entry.start
    else:
        extra = {"truncated": entry.end - entry.start}
    names = {"offset": "base_offset", "message_size": "batch_length"}
    values = {names.get(node.name, node.name): node.value for node in cursor.nodes}
    return {name: values[name] for name in ("base_offset", "batch_length", "magic") if name in values} | extra


def _walk_fields(cursor: Cursor, entry: BatchEntry, decompressor: Decompressor) -> None:
    """Walk one entry, or only the header if the entry is truncated."""
    if entry.magic == 2:
        batch.walk_batch(cursor, decompressor)
    elif entry.magic is not None:
        for _ in message_set.walk_message(cursor, decompressor):
            pass
    elif entry.fault is None and entry.end - entry.start > _MAGIC_AT:
        read_header = batch.walk_header if cursor.data[cursor.pos + _MAGIC_AT] == 2 else message_set.walk_header
        try:
            read_header(cursor)
        except DecodeError:
            return  # truncated inside the header
    elif entry.end - entry.start >= LOG_OVERHEAD:
        cursor.read_integer("base_offset", "q")
        if entry.fault is None or entry.fault.path == ("magic",):
            cursor.read_integer("batch_length", "i")
        if entry.fault:
            raise entry.fault
