"""Batches as stored in a log, and the control batches that brokers write."""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from dissectors.records import encode
from dissectors.records.batch import HEADER
from dissectors.records.control import read_control_key
from dissectors.records.formats import CONTROL, TRANSACTIONAL

_CONTROL_KEY: Final = struct.Struct(">hh")  # version, type
_MARKER_VALUE: Final = struct.Struct(">hi")  # version, epoch of the coordinator
_ABORT: Final = 0
_COMMIT: Final = 1
_MAX_SEQUENCE: Final = 2**31 - 1


class Header(NamedTuple):
    """The header of a batch of format 2, in wire order."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def control(self) -> bool:
        """Whether a broker wrote the batch; consumers do not see it."""
        return self.attributes & CONTROL != 0

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap around to 0 after 2^31 - 1."""
        return add_to_sequence(self.base_sequence, self.last_offset_delta)


class StoredBatch(NamedTuple):
    """A batch of format 2 with its offsets, as it is stored and sent."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: bytes

    @property
    def header(self) -> Header:
        """The parsed header."""
        return read_header(self.data)


class Marker(NamedTuple):
    """The end of a transaction, as recorded in a control batch."""

    commit: bool
    coordinator_epoch: int


def read_header(data: bytes | bytearray | memoryview, start: int = 0) -> Header:
    """Parse the header of the batch at `start`.

    Raises:
        struct.error: The data is shorter than a header.
    """
    return Header._make(HEADER.unpack_from(data, start))


def add_to_sequence(sequence: int, steps: int) -> int:
    """Return the sequence that is this many steps later."""
    return (sequence + steps) & _MAX_SEQUENCE


def build_marker(
    base_offset: int, leader_epoch: int, producer_id: int, epoch: int, marker: Marker, timestamp: int
) -> StoredBatch:
    """Build the control batch that ends a transaction, as Kafka writes it (EndTransactionMarker).

    Args:
        base_offset: The offset of the batch's only record.
        leader_epoch: The partition's leader epoch.
        producer_id: The producer.
        epoch: The producer's epoch.
        marker: Whether the transaction commits or aborts.
        timestamp: The record's time in ms.
    """
    record = {
        "offset": base_offset,
        "timestamp": timestamp,
        "key": _CONTROL_KEY.pack(0, _COMMIT if marker.commit else _ABORT),
        "value": _MARKER_VALUE.pack(0, marker.coordinator_epoch),
    }
    values: dict[str, Any] = {
        "base_offset": base_offset,
        "partition_leader_epoch": leader_epoch,
        "is_transactional": True,
        "is_control": True,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "records": [record],
    }
    return StoredBatch(base_offset, base_offset, timestamp, encode([values]))


def read_marker(record: dict[str, Any]) -> Marker | None:
    """Return the transaction marker in a control record; None for other control records."""
    kind = read_control_key(record["key"])["type"]
    value = record["value"]
    if kind not in ("ABORT", "COMMIT") or value is None or len(value) < _MARKER_VALUE.size:
        return None
    return Marker(kind == "COMMIT", _MARKER_VALUE.unpack_from(value)[1])
