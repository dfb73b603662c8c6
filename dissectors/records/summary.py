"""Summaries of record data from batch headers, without reading records: the hot path of every Produce and Fetch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from dissectors.records.batch import HEADER
from dissectors.records.compression import codec_name
from dissectors.records.formats import CONTROL, TRANSACTIONAL, entries, sentence
from dissectors.records.record_checks import BatchSpan

_BATCH_FACTS = struct.Struct(">21xh12xq14xi")  # attributes, max_timestamp, records_count
_MESSAGE_FACTS = struct.Struct(">17xb")  # attributes
_TIMESTAMP = struct.Struct(">18xq")
# base_offset, batch_length, magic, attributes, last_offset_delta, records_count
_OUTLINE = struct.Struct(">qi4xb4xhi30xi").unpack_from
_MESSAGE_OUTLINE = struct.Struct(">q9xb").unpack_from  # offset, attributes
_ONE_CODEC = tuple((codec_name(number),) for number in range(8))
_new_tuple = tuple.__new__  # faster than `Outline(...)`, for each partition with records


class RecordsSummary(NamedTuple):
    """A summary of the headers in record data.

    `batches` counts batches and, in formats 0 and 1, outermost messages. `records` is the number claimed by batch
    headers; a message counts as one, because the number of wrapped records is unknown without decompressing it.
    `complete_bytes` is the size of all complete batches, `trailing_bytes` the size of what follows: a truncated end or,
    with `error`, bytes in which no batch can be found. `magics` and `compressions` (``gzip``; also ``none``) are in
    order of first appearance. `max_timestamp` is in ms, -1 is none. A flag is set if any batch has it.
    """

    batches: int
    records: int
    complete_bytes: int
    trailing_bytes: int
    magics: tuple[int, ...]
    compressions: tuple[str, ...]
    max_timestamp: int
    is_transactional: bool
    is_control: bool
    error: str | None


def summarize(data: bytes | memoryview) -> RecordsSummary:
    """Summarize the headers of a ``records`` field without checking CRCs or records. Never raises.

    A batch that is too short for its header, or has a negative record count, counts as having no records and sets
    `error`.
    """
    batches = records = complete_bytes = all_attributes = 0
    max_timestamp = -1
    magics: list[int] = []
    codecs: list[str] = []
    error = None
    for start, end, magic, fault in entries(data, 0, len(data)):
        if magic is None:
            error = error or (sentence(fault) if fault else None)
            break
        batches += 1
        complete_bytes = end
        if magic not in magics:
            magics.append(magic)
        timestamp = -1
        if magic == 2:
            if end - start < HEADER.size:
                error = error or f"batch {batches - 1}: {end - start} bytes are too few for its header"
                continue
            attributes, timestamp, count = _BATCH_FACTS.unpack_from(data, start)
            if count < 0:
                error = error or f"batch {batches - 1}: records_count is {count}"
                count = 0
            records += count
            all_attributes |= attributes
        else:
            (attributes,) = _MESSAGE_FACTS.unpack_from(data, start)
            records += 1
            if magic == 1:
                (timestamp,) = _TIMESTAMP.unpack_from(data, start)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        codec = codec_name(attributes)
        if codec not in codecs:
            codecs.append(codec)
    return RecordsSummary(
        batches,
        records,
        complete_bytes,
        len(data) - complete_bytes,
        tuple(magics),
        tuple(codecs),
        max_timestamp,
        all_attributes & TRANSACTIONAL != 0,
        all_attributes & CONTROL != 0,
        error,
    )


class Outline(NamedTuple):
    """The facts about record data that a trace line contains.

    `records` is the number claimed by headers, as in `RecordsSummary`. `batches` counts batches of format 2, and each
    run of consecutive messages of formats 0 and 1 as one batch. `compressions` are in order of first appearance.
    `next_offset` is the offset after the last batch, None if no batch is complete.
    """

    records: int
    batches: int
    compressions: tuple[str, ...]
    next_offset: int | None


def outline(data: bytes | memoryview, batches: Sequence[BatchSpan] = ()) -> Outline:
    """Outline a ``records`` field, reading each header once; a truncated end does not count. Never raises.

    `batches` are the headers of all batches, if they have been read already.
    """
    if not batches:
        return _read_outline(data)
    last_batch = batches[-1]
    next_offset = last_batch.base_offset + last_batch.last_offset_delta + 1
    if len(batches) == 1:  # the usual case
        codec_names = _ONE_CODEC[last_batch.attributes & 7]
        return _new_tuple(Outline, (max(last_batch.records_count, 0), 1, codec_names, next_offset))
    records = sum([batch.records_count for batch in batches if batch.records_count > 0])
    codecs = dict.fromkeys([batch.attributes & 7 for batch in batches])
    return Outline(records, len(batches), tuple([_ONE_CODEC[codec][0] for codec in codecs]), next_offset)


def _read_outline(data: bytes | memoryview) -> Outline:
    records = batches = 0
    codecs: list[str] = []
    next_offset: int | None = None
    in_message_set = False
    for start, end, magic, _ in entries(data, 0, len(data)):
        if magic is None:
            break
        if magic != 2:
            batches += not in_message_set
            in_message_set = True
            records += 1
            offset, attributes = _MESSAGE_OUTLINE(data, start)
            next_offset = offset + 1  # a compressed message has the offset of its last record
        else:
            batches += 1
            in_message_set = False
            if end - start < HEADER.size:
                continue
            base_offset, _, _, attributes, last_offset_delta, count = _OUTLINE(data, start)
            records += max(count, 0)
            next_offset = base_offset + last_offset_delta + 1
        if (codec := _ONE_CODEC[attributes & 7][0]) not in codecs:
            codecs.append(codec)
    return Outline(records, batches, tuple(codecs), next_offset)
