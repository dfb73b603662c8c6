"""Check the records of a batch or message, decompressed if needed, and report the first fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dissectors.records import batch as batches
from dissectors.records import message_set
from dissectors.records.compression import CODECS, Decompressor, codec_name, detect_codec, snappy_versions
from dissectors.records.cursor import Cursor
from dissectors.records.fast_path import read_records
from dissectors.records.faults import Fault, FaultKind
from dissectors.records.formats import count_text
from dissectors.records.layout_deviations import deviations
from dissectors.records.layout_variants import ENCODINGS
from dissectors.records.varint import read_zigzag
from dissectors.wire.errors import DecodeError
from dissectors.wire.node import Node
from dissectors.wire.primitives import Irregularity

#: The limit on decompressed bytes when a batch is examined.
MAX_BYTES = 16 << 20

#: A batch over `MAX_BYTES` with a larger compression ratio than this is a compression bomb.
BOMB_RATIO = 100

#: The same limit for a compressed message of format 0 or 1, whose records are walked one by one.
MAX_MESSAGE_BYTES = 2 << 20

#: The most records of a bad batch that are read one by one to find the first bad record.
MAX_RECORDS = 10_000

_COUNT_AT = batches.HEADER.size - 4
_SNAPPY = CODECS.index("snappy")
_LITTLE_ENDIAN_ONE = 1 << 24
_INT32, _INT64 = 2**31, 2**63


#: The number of a producer's sequence numbers, after which they wrap around to 0.
SEQUENCES = 1 << 31


class BatchSpan(NamedTuple):
    """The position of a batch in its field, and its header; messages of formats 0 and 1 lack some header fields."""

    start: int
    end: int
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int = 0
    base_timestamp: int = -1
    max_timestamp: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    records_count: int = 1

    @property
    def last_offset(self) -> int:
        """The offset of the last record that the batch had when it was written."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_sequence(self) -> int:
        """The sequence number of the producer's next batch."""
        return (self.base_sequence + self.records_count) % SEQUENCES


class Payload:
    """The decompressed records of a batch of format 2, and their position in the field.

    Raises:
        DecodeError: Decompression failed.
    """

    def __init__(self, data: bytes | memoryview, batch: BatchSpan, decompressor: Decompressor) -> None:
        self.start, self.end = batch.start + batches.HEADER.size, batch.end
        self.data = bytes(data[self.start : self.end])
        self.compressed = batch.attributes & 7 != 0
        if self.compressed:
            self.data = decompressor.decompress(batch.attributes & 7, self.data, offset=self.start)

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of record bytes in the field: all compressed bytes if the records are compressed."""
        return (self.start, self.end) if self.compressed else (self.start + start, self.start + end)

    def read_records(self, count: int) -> list[dict[str, Any]]:
        """Return the records as `dissectors.records.decode` does, but with deltas as offsets and timestamps.

        Raises:
            Irregularity, IndexError: The records do not decode.
        """
        return read_records(self.data, {"base_offset": 0, "base_timestamp": 0, "records_count": count})

    def field_span(self, index: int, name: str) -> tuple[int, int]:
        """Return the span of a field of a record; all earlier records must decode."""
        pos = 0
        for _ in range(index):
            size, pos = read_zigzag(self.data, pos)
            pos += size
        node = next(_walk_record(self.data, pos))
        field_node = next(child for child in node.children if child.name == name)
        return self.locate(field_node.start, field_node.end)


def check_records(data: bytes | memoryview, index: int, batch: BatchSpan, *, produced: bool) -> Iterator[Fault]:
    """Yield the faults of the records in the batch at `index` of its field."""
    decompressor = Decompressor(MAX_BYTES)
    try:
        payload = Payload(data, batch, decompressor)
    except DecodeError as error:
        if decompressor.left:  # otherwise the limit was exceeded
            yield _codec_fault(data, index, batch) or _decompression_fault(index, batch, batches.HEADER.size, error)
        elif (batch.end - batch.start) * BOMB_RATIO < MAX_BYTES and error.message.startswith("decompresses to more"):
            yield _bomb_fault(index, batch)
        return
    if batch.attributes & 7 == _SNAPPY and (fault := _snappy_header_fault(data, index, batch)):
        yield fault
    try:
        records = payload.read_records(batch.records_count)
    except (Irregularity, IndexError):
        fault = _codec_fault(data, index, batch) or _double_compression_fault(index, batch, payload)
        if fault := fault or _unreadable_fault(data, index, batch, payload):
            yield fault
        return
    yield from _delta_faults(index, batch, payload, records, produced=produced)


def check_wrapped_records(data: bytes | memoryview, index: int, message: BatchSpan) -> Iterator[Fault]:
    """Yield the fault, if any, in the records of the message of format 0 or 1 at `index` of its field."""
    message_bytes = bytes(data[message.start : message.end])
    cursor = Cursor(message_bytes, 0, len(message_bytes))
    decompressor = Decompressor(MAX_MESSAGE_BYTES)
    try:
        for fields in message_set.walk_message(cursor, decompressor):
            crc = fields["crc"]
            if message.attributes & 7 and crc.meaning != "valid":
                text = f"the CRC of a message inside the compressed one is 0x{crc.value:08x}, {crc.meaning}"
                span = message.start + crc.start, message.start + crc.end
                yield Fault(FaultKind.CRC, (str(index), "value"), *span, text)
                return
    except DecodeError as error:
        if not decompressor.left:
            return
        if error.path == ("value",) and error.message.startswith("not "):
            yield _decompression_fault(index, message, error.offset, error)
            return
        start = message.start + error.offset
        yield Fault(FaultKind.LENGTH, (str(index), *error.path), start, min(start + 4, message.end), error.message)


def _decompression_fault(index: int, batch: BatchSpan, start: int, error: DecodeError) -> Fault:
    codec = codec_name(batch.attributes)
    text = f"the attributes say {codec}, the payload is {error.message}"
    path = (str(index), "records" if batch.magic == 2 else "value")
    return Fault(FaultKind.COMPRESSION, path, batch.start + start, batch.end, text, expected=codec)


def _codec_fault(data: bytes | memoryview, index: int, batch: BatchSpan) -> Fault | None:
    """Return the fault if the records begin with the magic of a codec that is not the one in the attributes."""
    start = batch.start + batches.HEADER.size
    codec, magic = detect_codec(bytes(data[start : start + 16])) or (0, b"")
    if codec in (0, batch.attributes & 7):
        return None
    claim = f"say {codec_name(batch.attributes)}" if batch.attributes & 7 else "say no compression"
    text = (
        f"the attributes {claim}, but the records begin with {magic.hex(' ')}: they are {CODECS[codec]}, codec {codec}"
    )
    span = batch.start + batches.CRC_START, batch.start + batches.CRC_START + 2
    expected = f"{CODECS[codec]} ({codec})"
    got = f"{codec_name(batch.attributes)} ({batch.attributes & 7})"
    return Fault(FaultKind.COMPRESSION, (str(index), "attributes"), *span, text, expected, got)


def _double_compression_fault(index: int, batch: BatchSpan, payload: Payload) -> Fault | None:
    """Return the fault if the decompressed records begin with the magic of a codec."""
    codec, magic = detect_codec(payload.data[:16]) or (0, b"")
    if not payload.compressed or codec == 0:
        return None
    text = (
        f"the records are compressed twice: after {codec_name(batch.attributes)} is undone, they begin with "
        f"{magic.hex(' ')}, which is {CODECS[codec]}"
    )
    span = payload.start, payload.end
    return Fault(FaultKind.COMPRESSION, (str(index), "records"), *span, text, "records", CODECS[codec])


def _snappy_header_fault(data: bytes | memoryview, index: int, batch: BatchSpan) -> Fault | None:
    start = batch.start + batches.HEADER.size
    versions = snappy_versions(bytes(data[start : start + 16]))
    if versions in (None, (1, 1)):
        return None
    assert versions is not None
    text = f"the snappy header has the versions {versions[0]} and {versions[1]}, should be 1 and 1"
    if versions == (_LITTLE_ENDIAN_ONE, _LITTLE_ENDIAN_ONE):
        text += ": they are little-endian"
    got = f"{versions[0]} and {versions[1]}"
    return Fault(FaultKind.SNAPPY_HEADER, (str(index), "records"), start + 8, start + 16, text, "1 and 1", got)


def _bomb_fault(index: int, batch: BatchSpan) -> Fault:
    start = batch.start + batches.HEADER.size
    compressed = f"{count_text(batch.end - start, 'byte')} of {codec_name(batch.attributes)}"
    text = f"{compressed} decompress to over {MAX_BYTES} bytes"
    return Fault(FaultKind.BOMB, (str(index), "records"), start, batch.end, text, f"at most {MAX_BYTES} bytes")


def _delta_faults(
    index: int, batch: BatchSpan, payload: Payload, records: list[dict[str, Any]], *, produced: bool
) -> Iterator[Fault]:
    offsets = [record["offset"] for record in records]
    expected_deltas = list(range(len(offsets)))
    if offsets != expected_deltas:
        mismatch = _first_wrong_delta(offsets, expected_deltas if produced else None)
        if mismatch is not None:
            record_index, expected = mismatch
            text = f"record {record_index} has offset delta {offsets[record_index]}, should be {expected}"
            span = payload.field_span(record_index, "offset_delta")
            field_path = (str(index), "records", str(record_index), "offset_delta")
            yield Fault(FaultKind.OFFSETS, field_path, *span, text, expected, str(offsets[record_index]), proven=False)
            return
    last_delta = len(offsets) - 1 if produced else max(offsets, default=-1)
    if batch.last_offset_delta < last_delta or (produced and batch.last_offset_delta != last_delta and records):
        counted = count_text(len(records), "record")
        text = f"last_offset_delta is {batch.last_offset_delta}, the last of {counted} has {last_delta}"
        start = batch.start + batches.CRC_START + 2
        got = str(batch.last_offset_delta)
        path = (str(index), "last_offset_delta")
        yield Fault(FaultKind.LAST_OFFSET, path, start, start + 4, text, str(last_delta), got, proven=False)
    for record_index, record in enumerate(records):
        if not -_INT32 <= (delta := record["timestamp"]) < _INT32:
            yield _timestamp_fault(index, batch, payload, record_index, delta)
            return


def _first_wrong_delta(offsets: list[int], expected: list[int] | None) -> tuple[int, str] | None:
    if expected is not None:
        record_index = next(record_index for record_index, delta in enumerate(offsets) if delta != record_index)
        return record_index, str(record_index)
    previous = -1
    for record_index, delta in enumerate(offsets):
        if delta <= previous:
            return record_index, f"above {previous}"
        previous = delta
    return None


def _timestamp_fault(index: int, batch: BatchSpan, payload: Payload, record_index: int, delta: int) -> Fault:
    span = payload.field_span(record_index, "timestamp_delta")
    path = (str(index), "records", str(record_index), "timestamp_delta")
    timestamp = batch.base_timestamp + delta
    if timestamp < -1 or timestamp >= _INT64:
        text = f"record {record_index} has timestamp {timestamp}: {batch.base_timestamp} and a delta of {delta}"
        return Fault(FaultKind.TIMESTAMP, path, *span, text, got=str(timestamp), proven=False)
    text = f"the timestamp delta {delta} of record {record_index} takes more than 32 bits"
    return Fault(FaultKind.TIMESTAMP, path, *span, text, got=str(delta), proven=False)


def _unreadable_fault(data: bytes | memoryview, index: int, batch: BatchSpan, payload: Payload) -> Fault | None:
    if found_deviations := deviations(bytes(data[batch.start : batch.end])):
        encoding, *rivals = found_deviations
        start = batch.start + encoding.offset
        end = batch.end if payload.compressed else start + encoding.size
        field_path = (str(index), "records", "0", ENCODINGS[encoding.written].deviates)
        text = "; or ".join(deviation.sentence for deviation in found_deviations)
        return Fault(FaultKind.ENCODING, field_path, start, end, text, deviation=encoding, rivals=tuple(rivals))
    count = batch.records_count
    readable_count, pos, error = _find_unreadable_record(payload.data, count)
    count_span = batch.start + _COUNT_AT, batch.start + _COUNT_AT + 4
    count_path = (str(index), "records_count")
    if count < 0 or count > len(payload.data):
        text = f"records_count is {count}, {count_text(len(payload.data), 'byte')} of records follow"
        return Fault(FaultKind.ABSURD_COUNT, count_path, *count_span, text, got=str(count))
    if error is None:
        if readable_count == MAX_RECORDS:
            return None  # a later record is wrong
        later_count, later_end, _ = _find_unreadable_record(payload.data[pos:], MAX_RECORDS)
        if readable_count < count or pos + later_end == len(payload.data):
            text = f"records_count is {count}, {count_text(readable_count + later_count, 'record')} follow"
            return Fault(FaultKind.COUNT, count_path, *count_span, text, str(readable_count + later_count), str(count))
        remaining = len(payload.data) - pos
        text = f"{count_text(remaining, 'byte')} left in the batch after its {count_text(count, 'record')}"
        return Fault(FaultKind.LENGTH, (str(index), "records"), *payload.locate(pos, pos + remaining), text)
    path = (str(index), "records", str(readable_count), *error.path)
    span = payload.locate(error.offset, _varint_end(payload.data, error.offset))
    if error.path[:1] == ("headers",) and error.path[2:] == ("key",) and error.message.startswith("length is -"):
        text = f"the key of header {error.path[1]} of record {readable_count} is null"
        return Fault(FaultKind.HEADER_KEY, path, *span, text, got=error.message.removeprefix("length is "))
    return Fault(FaultKind.LENGTH, path, *span, f"record {readable_count} does not read: {error.message}")


class _ReadingEnd(NamedTuple):
    record_count: int
    pos: int
    error: DecodeError | None


def _find_unreadable_record(data: bytes, count: int) -> _ReadingEnd:
    """Return how many of `count` records are readable, where the next one begins, and its error, if any."""
    pos = 0
    single_record_header = {"base_offset": 0, "base_timestamp": 0, "records_count": 1}
    for index in range(min(count, MAX_RECORDS)):
        if pos == len(data):
            return _ReadingEnd(index, pos, None)
        try:
            size, body = read_zigzag(data, pos)
            end = body + size
            read_records(data[pos : max(pos, end)], single_record_header)
        except (Irregularity, IndexError):
            try:
                end = next(_walk_record(data, pos)).end
            except DecodeError as error:
                error.path = error.path[1:]
                return _ReadingEnd(index, pos, error)
        pos = end
    return _ReadingEnd(min(count, MAX_RECORDS), pos, None)


def _walk_record(data: bytes, pos: int) -> Iterator[Node]:
    header = {"base_offset": 0, "base_timestamp": 0, "attributes": 0, "records_count": 1}
    return batches.walk_records(Cursor(data, pos, len(data)), header)


def _varint_end(data: bytes, pos: int) -> int:
    try:
        return read_zigzag(data, pos, 64)[1]
    except (Irregularity, IndexError):
        return min(pos + 1, len(data))
