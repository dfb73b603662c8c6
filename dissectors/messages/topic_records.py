"""The partitions in Produce and Fetch: their record data with the header of the first batch, and fetch offsets.

Lines, trackers and rules all need these, so they are read once per message.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from dissectors.messages.message import Message
from dissectors.records.batch import HEADER
from dissectors.records.formats import LOG_OVERHEAD
from dissectors.records.record_checks import BatchSpan
from dissectors.schemas.codes import ApiKey
from dissectors.wire.layout import Layout, cached_on_owner

_PARTITION_FIELDS = ("partition_index", "partition", "index", "partition_id")
_MAGIC = 2
_BATCH_START = struct.Struct(">qi")
_MAX_BATCHES = 1_000

# Faster than `BatchSpan(...)`, which matters because this is done for every partition.
_new_tuple = tuple.__new__
_read_header, _HEADER_SIZE = HEADER.unpack_from, HEADER.size
_NO_BATCHES: Sequence[BatchSpan] = ()


class PartitionRecords(NamedTuple):
    """A partition of a message: its struct in the body, and its records.

    `partition` is its index, None if the struct has none. `data` is None if the records are null. `batch` is the header
    of the first batch, None if that has another format or is truncated; its `end` is the end of the data. `batches` has
    the headers of all batches if all are complete and of format 2; otherwise it is empty.
    """

    partition: int | None
    row: dict[str, Any]
    data: bytes | memoryview | None
    batch: BatchSpan | None
    batches: Sequence[BatchSpan]


class TopicRecords(NamedTuple):
    """A topic in a message: its name or id, depending on the version, and its partitions."""

    name: str | None
    topic_id: str | None
    partitions: list[PartitionRecords]

    @property
    def key(self) -> str:
        """The name or, without a name, the id."""
        return self.name or self.topic_id or ""


class RecordsPath(NamedTuple):
    """The names of the fields that lead to record data: topics, topic name, partitions, partition index."""

    topics: str
    name: str
    partitions: str
    partition: str


@cached_on_owner
def records_path(layout: Layout) -> RecordsPath | None:
    """Return where a layout has its record data; None if it has none."""
    for topics in layout.fields:
        inner = topics.struct.fields if topics.struct is not None and topics.array else ()
        for partitions in inner:
            fields = partitions.struct.fields if partitions.struct is not None and partitions.array else ()
            index = next((name for name in _PARTITION_FIELDS if any(field.name == name for field in fields)), None)
            if index is not None and any(field.type == "records" for field in fields):
                name = next((field.name for field in inner if field.entity == "topicName"), "")
                return RecordsPath(topics.name, name, partitions.name, index)
    return None


def topic_records(message: Message) -> list[TopicRecords]:
    """Return the topics and partitions of a message with record data, in wire order; no topics for other messages."""
    cached = message.records_cache
    if cached is None:
        path = None if message.layout is None else records_path(message.layout)
        cached = message.records_cache = [] if path is None else _read_topics(message.body, path)
    return cached


def fetch_offsets(message: Message) -> dict[tuple[str, int], int]:
    """Return the fetch offset of each partition in a well-formed Fetch request, by topic (its `key`) and partition.

    The result is empty for other messages.
    """
    cached = message.offsets_cache
    if cached is None:
        topics = message.body["topics"] or () if message.api_key == ApiKey.FETCH and message.well_formed else ()
        cached = message.offsets_cache = {
            (name, row["partition"]): row["fetch_offset"]
            for topic in topics
            for name in (topic.get("topic") or topic.get("topic_id") or "",)
            for row in topic["partitions"] or ()
        }
    return cached


def first_batch(data: bytes | memoryview | None) -> BatchSpan | None:
    """Return the header of the first batch of record data; None if the batch is of another format or truncated."""
    if data is None or len(data) < _HEADER_SIZE or data[16] != _MAGIC:
        return None
    return _new_tuple(BatchSpan, (0, len(data), *_read_header(data)))


def _complete_batches(data: bytes | memoryview, first: BatchSpan) -> Sequence[BatchSpan]:
    """Return the headers of all batches, or nothing unless all batches are complete and of format 2."""
    start, size = LOG_OVERHEAD + first.batch_length, len(data)
    if start == size:
        return (first,)  # the usual case
    if not _HEADER_SIZE <= start < size:
        return ()
    batches = [_new_tuple(BatchSpan, (0, start, *first[2:]))]
    last_start = size - _HEADER_SIZE
    while start <= last_start:
        header = _read_header(data, start)
        length = header[1]
        end = start + LOG_OVERHEAD + length
        if header[3] != _MAGIC or length < _HEADER_SIZE - LOG_OVERHEAD or end > size:
            return ()
        batches.append(_new_tuple(BatchSpan, (start, end, *header)))
        start = end
    return batches if start == size else ()


def first_batch_from(data: bytes | memoryview | None, offset: int) -> int | None:
    """Return the base offset of the first complete batch at or above an offset; None if there is none."""
    pos, size = 0, len(data or b"")
    for _ in range(_MAX_BATCHES):
        if data is None or pos + _BATCH_START.size > size:
            return None
        base_offset, length = _BATCH_START.unpack_from(data, pos)
        pos += _BATCH_START.size + length
        if length <= 0 or pos > size:
            return None
        if base_offset >= offset:
            return int(base_offset)
    return None


def _read_topics(body: dict[str, Any], path: RecordsPath) -> list[TopicRecords]:
    topics, name, partitions, index = path
    result = []
    for topic in body.get(topics) or ():
        rows = []
        for row in topic.get(partitions) or ():
            data, batch, batches = row.get("records"), None, _NO_BATCHES
            if data and (batch := first_batch(data)) is not None:
                batches = _complete_batches(data, batch)
            rows.append(_new_tuple(PartitionRecords, (row.get(index), row, data, batch, batches)))
        result.append(_new_tuple(TopicRecords, (topic.get(name), topic.get("topic_id"), rows)))
    return result
