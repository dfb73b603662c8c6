"""Checks the records of a batch or message, decompressed if needed, and reports the first fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dissectors.records import batch as batches
from dissectors.records import message_set
from dissectors.records.compression import CODECS, Decompressor, codec_name, codec_of, snappy_versions
from dissectors.records.cursor import Cursor
from dissectors.records.fast_path import read_records
from dissectors.records.faults import Fault, FaultKind
from dissectors.records.formats import counted
from dissectors.records.layout_departures import departures
from dissectors.records.layout_variants import ENCODINGS
from dissectors.records.varint import read_zigzag
from dissectors.wire.errors import DecodeError
from dissectors.wire.node import Node
from dissectors.wire.primitives import Irregularity

#: The limit of decompressed bytes for examining a batch.
MAX_BYTES = 16 << 20

#: A batch over `MAX_BYTES` with a larger compression ratio than this is a compression bomb.
BOMB_RATIO = 100

#: The limit for a compressed message of format 0 or 1, whose records are walked one by one.
MAX_MESSAGE_BYTES = 2 << 20

#: The number of records of a bad batch that are read one by one to find the first bad one.
MAX_RECORDS = 10_000

_COUNT_AT = batches.HEADER.size - 4
_SNAPPY = CODECS.index("snappy")
_LITTLE_ENDIAN_ONE = 1 << 24
_INT32, _INT64 = 2**31, 2**63


#: Sequence numbers of a producer begin again at 0 after this many.
SEQUENCES = 1 << 31


class BatchSpan(NamedTuple):
    """The position of a batch in its field, and its header; messages of formats 0 and 1 have only some fields."""

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

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span in the field of bytes of the records: all compressed bytes if they are compressed."""
        return (self.start, self.end) if self.compressed else (self.start + start, self.start + end)

    def records(self, count: int) -> list[dict[str, Any]]:
        """The records in the form of `dissectors.records.decode`, with deltas as offsets and timestamps.

        Raises:
            Irregularity, IndexError: The records do not decode.
        """
        return read_records(self.data, {"base_offset": 0, "base_timestamp": 0, "records_count": count})

    def field(self, index: int, name: str) -> tuple[int, int]:
        """The span of a field of a record; all records before it must decode."""
        pos = 0
        for _ in range(index):
            size, pos = read_zigzag(self.data, pos)
            pos += size
        node = next(_walk_one(self.data, pos))
        node_found = next(child for child in node.children if child.name == name)
        return self.span(node_found.start, node_found.end)


def check_records(data: bytes | memoryview, index: int, batch: BatchSpan, *, produced: bool) -> Iterator[Fault]:
    """The faults of the records in the batch at `index` of its field."""
    decompressor = Decompressor(MAX_BYTES)
    try:
        payload = Payload(data, batch, decompressor)
    except DecodeError as error:
        if decompressor.left:  # else the limit was exceeded
            yield _other_codec(data, index, batch) or _undecompressed(index, batch, batches.HEADER.size, error)
        elif (batch.end - batch.start) * BOMB_RATIO < MAX_BYTES and error.message.startswith("decompresses to more"):
            yield _bomb(index, batch)
        return
    if batch.attributes & 7 == _SNAPPY and (fault := _snappy_header(data, index, batch)):
        yield fault
    try:
        records = payload.records(batch.records_count)
    except (Irregularity, IndexError):
        fault = _other_codec(data, index, batch) or _compressed_twice(index, batch, payload)
        if fault := fault or _unreadable(data, index, batch, payload):
            yield fault
        return
    yield from _deltas(index, batch, payload, records, produced=produced)


def check_wrapped_records(data: bytes | memoryview, index: int, message: BatchSpan) -> Iterator[Fault]:
    """The faults inside the message of format 0 or 1 at `index` of its field."""
    own = bytes(data[message.start : message.end])
    cursor = Cursor(own, 0, len(own))
    decompressor = Decompressor(MAX_MESSAGE_BYTES)
    try:
        for inner in message_set.walk_message(cursor, decompressor):
            crc = inner["crc"]
            if message.attributes & 7 and crc.meaning != "valid":
                text = f"the CRC of a message inside the compressed one is 0x{crc.value:08x}, {crc.meaning}"
                place = message.start + crc.start, message.start + crc.end
                yield Fault(FaultKind.CRC, (str(index), "value"), *place, text)
                return
    except DecodeError as error:
        if not decompressor.left:
            return
        if error.path == ("value",) and error.message.startswith("not "):
            yield _undecompressed(index, message, error.offset, error)
            return
        start = message.start + error.offset
        yield Fault(FaultKind.LENGTH, (str(index), *error.path), start, min(start + 4, message.end), error.message)


def _undecompressed(index: int, batch: BatchSpan, start: int, error: DecodeError) -> Fault:
    codec = codec_name(batch.attributes)
    text = f"the attributes say {codec}, the payload is {error.message}"
    path = (str(index), "records" if batch.magic == 2 else "value")
    return Fault(FaultKind.COMPRESSION, path, batch.start + start, batch.end, text, expected=codec)


def _other_codec(data: bytes | memoryview, index: int, batch: BatchSpan) -> Fault | None:
    """The fault of records that begin with the magic of another codec than the attributes say."""
    start = batch.start + batches.HEADER.size
    codec, magic = codec_of(bytes(data[start : start + 16])) or (0, b"")
    if codec in (0, batch.attributes & 7):
        return None
    says = f"say {codec_name(batch.attributes)}" if batch.attributes & 7 else "say no compression"
    text = (
        f"the attributes {says}, but the records begin with {magic.hex(' ')}: they are {CODECS[codec]}, codec {codec}"
    )
    place = batch.start + batches.CRC_START, batch.start + batches.CRC_START + 2
    expected = f"{CODECS[codec]} ({codec})"
    got = f"{codec_name(batch.attributes)} ({batch.attributes & 7})"
    return Fault(FaultKind.COMPRESSION, (str(index), "attributes"), *place, text, expected, got)


def _compressed_twice(index: int, batch: BatchSpan, payload: Payload) -> Fault | None:
    """The fault of records that begin with the magic of a codec after they were decompressed."""
    codec, magic = codec_of(payload.data[:16]) or (0, b"")
    if not payload.compressed or codec == 0:
        return None
    text = (
        f"the records are compressed twice: after {codec_name(batch.attributes)} is undone, they begin with "
        f"{magic.hex(' ')}, which is {CODECS[codec]}"
    )
    place = payload.start, payload.end
    return Fault(FaultKind.COMPRESSION, (str(index), "records"), *place, text, "records", CODECS[codec])


def _snappy_header(data: bytes | memoryview, index: int, batch: BatchSpan) -> Fault | None:
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


def _bomb(index: int, batch: BatchSpan) -> Fault:
    start = batch.start + batches.HEADER.size
    text = (
        f"{counted(batch.end - start, 'byte')} of {codec_name(batch.attributes)} decompress to over {MAX_BYTES} bytes"
    )
    return Fault(FaultKind.BOMB, (str(index), "records"), start, batch.end, text, f"at most {MAX_BYTES} bytes")


def _deltas(
    index: int, batch: BatchSpan, payload: Payload, records: list[dict[str, Any]], *, produced: bool
) -> Iterator[Fault]:
    offsets = [record["offset"] for record in records]
    counted_up = list(range(len(offsets)))
    if offsets != counted_up:
        bad = _first_wrong(offsets, counted_up if produced else None)
        if bad is not None:
            which, should = bad
            text = f"record {which} has offset delta {offsets[which]}, should be {should}"
            place = payload.field(which, "offset_delta")
            where = (str(index), "records", str(which), "offset_delta")
            yield Fault(FaultKind.OFFSETS, where, *place, text, should, str(offsets[which]), proven=False)
            return
    last = len(offsets) - 1 if produced else max(offsets, default=-1)
    if batch.last_offset_delta < last or (produced and batch.last_offset_delta != last and records):
        text = (
            f"last_offset_delta is {batch.last_offset_delta}, the last of {counted(len(records), 'record')} has {last}"
        )
        start = batch.start + batches.CRC_START + 2
        got = str(batch.last_offset_delta)
        path = (str(index), "last_offset_delta")
        yield Fault(FaultKind.LAST_OFFSET, path, start, start + 4, text, str(last), got, proven=False)
    for which, record in enumerate(records):
        if not -_INT32 <= (delta := record["timestamp"]) < _INT32:
            yield _far_timestamp(index, batch, payload, which, delta)
            return


def _first_wrong(offsets: list[int], should: list[int] | None) -> tuple[int, str] | None:
    if should is not None:
        which = next(which for which, delta in enumerate(offsets) if delta != which)
        return which, str(which)
    before = -1
    for which, delta in enumerate(offsets):
        if delta <= before:
            return which, f"above {before}"
        before = delta
    return None


def _far_timestamp(index: int, batch: BatchSpan, payload: Payload, which: int, delta: int) -> Fault:
    place = payload.field(which, "timestamp_delta")
    path = (str(index), "records", str(which), "timestamp_delta")
    timestamp = batch.base_timestamp + delta
    if timestamp < -1 or timestamp >= _INT64:
        text = f"record {which} has timestamp {timestamp}: {batch.base_timestamp} and a delta of {delta}"
        return Fault(FaultKind.TIMESTAMP, path, *place, text, got=str(timestamp), proven=False)
    text = f"the timestamp delta {delta} of record {which} takes more than 32 bits"
    return Fault(FaultKind.TIMESTAMP, path, *place, text, got=str(delta), proven=False)


def _unreadable(data: bytes | memoryview, index: int, batch: BatchSpan, payload: Payload) -> Fault | None:
    if found_departures := departures(bytes(data[batch.start : batch.end])):
        encoding, *rivals = found_departures
        start = batch.start + encoding.offset
        end = batch.end if payload.compressed else start + encoding.size
        where = (str(index), "records", "0", ENCODINGS[encoding.written].departs)
        text = "; or ".join(departure.sentence for departure in found_departures)
        return Fault(FaultKind.ENCODING, where, start, end, text, departure=encoding, rivals=tuple(rivals))
    count = batch.records_count
    found, pos, error = _first_unreadable(payload.data, count)
    says_count = batch.start + _COUNT_AT, batch.start + _COUNT_AT + 4
    count_path = (str(index), "records_count")
    if count < 0 or count > len(payload.data):
        text = f"records_count is {count}, {counted(len(payload.data), 'byte')} of records follow"
        return Fault(FaultKind.ABSURD_COUNT, count_path, *says_count, text, got=str(count))
    if error is None:
        if found == MAX_RECORDS:
            return None  # a later record is wrong
        more, rest, _ = _first_unreadable(payload.data[pos:], MAX_RECORDS)
        if found < count or pos + rest == len(payload.data):
            text = f"records_count is {count}, {counted(found + more, 'record')} follow"
            return Fault(FaultKind.COUNT, count_path, *says_count, text, str(found + more), str(count))
        left = len(payload.data) - pos
        text = f"{counted(left, 'byte')} left in the batch after its {counted(count, 'record')}"
        return Fault(FaultKind.LENGTH, (str(index), "records"), *payload.span(pos, pos + left), text)
    path = (str(index), "records", str(found), *error.path)
    place = payload.span(error.offset, _varint_end(payload.data, error.offset))
    if error.path[:1] == ("headers",) and error.path[2:] == ("key",) and error.message.startswith("length is -"):
        text = f"the key of header {error.path[1]} of record {found} is null"
        return Fault(FaultKind.HEADER_KEY, path, *place, text, got=error.message.removeprefix("length is "))
    return Fault(FaultKind.LENGTH, path, *place, f"record {found} does not read: {error.message}")


class _Stop(NamedTuple):
    found: int
    pos: int
    error: DecodeError | None


def _first_unreadable(data: bytes, count: int) -> _Stop:
    """The number of readable records of `count`, the position of the next one, and its error, if it is present."""
    pos = 0
    one = {"base_offset": 0, "base_timestamp": 0, "records_count": 1}
    for index in range(min(count, MAX_RECORDS)):
        if pos == len(data):
            return _Stop(index, pos, None)
        try:
            size, body = read_zigzag(data, pos)
            end = body + size
            read_records(data[pos : max(pos, end)], one)
        except (Irregularity, IndexError):
            try:
                end = next(_walk_one(data, pos)).end
            except DecodeError as error:
                error.path = error.path[1:]
                return _Stop(index, pos, error)
        pos = end
    return _Stop(min(count, MAX_RECORDS), pos, None)


def _walk_one(data: bytes, pos: int) -> Iterator[Node]:
    header = {"base_offset": 0, "base_timestamp": 0, "attributes": 0, "records_count": 1}
    return batches.walk_records(Cursor(data, pos, len(data)), header)


def _varint_end(data: bytes, pos: int) -> int:
    try:
        return read_zigzag(data, pos, 64)[1]
    except (Irregularity, IndexError):
        return min(pos + 1, len(data))
