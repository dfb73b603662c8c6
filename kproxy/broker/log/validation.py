"""Validates record data from a client, and turns it into a batch for a log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import google_crc32c

from dissectors.records.batch import CRC_START, HEADER
from dissectors.records.compression import DEFAULT_LIMIT, Decompressor, codec_name
from dissectors.records.fast_path import read_records
from dissectors.records.formats import TIMESTAMP_TYPE, entries
from dissectors.wire.errors import DecodeError
from dissectors.wire.primitives import Irregularity
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log.batch import Header, StoredBatch, read_header
from kproxy.broker.log.conversion import recompress, up_convert
from kproxy.broker.log.settings import LogSettings

_NO_TIMESTAMP: Final = -1
_CODEC: Final = 0x07
_ATTRIBUTES_OFFSET: Final = 21
_MAX_TIMESTAMP_OFFSET: Final = 35
_MAX_INT64: Final = 2**63 - 1


class RecordValidationError(ApiError):
    """Rejects a batch because of some of its records: `records` contains the index and error of each."""

    def __init__(self, error: Error, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(error, message)
        self.records = records


class PreparedBatch(NamedTuple):
    """A batch without offsets, and its LogAppendTime (-1 if it is not used)."""

    header: Header
    data: bytearray
    append_time: int

    def with_offset(self, offset: int, leader_epoch: int) -> StoredBatch:
        """Return the batch with its offsets and leader epoch, which the CRC does not cover."""
        self.data[:8] = offset.to_bytes(8, "big")
        self.data[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
        header = self.header
        return StoredBatch(offset, offset + header.last_offset_delta, header.max_timestamp, bytes(self.data))


def prepare(data: memoryview, settings: LogSettings, now: int, partition: str) -> PreparedBatch | None:
    """Validate record data as a partition's leader does, and turn it into one batch of format 2.

    Args:
        data: Data from a client: a batch of format 2, or message sets of formats 0 and 1.
        settings: The topic's settings.
        now: The current time, in ms.
        partition: ``topic-0``, for error messages.

    Returns:
        The batch; None if the data contains no complete batch, which is not an error.

    Raises:
        RecordValidationError: INVALID_RECORD or INVALID_TIMESTAMP for some of its records.
        ApiError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD; UNKNOWN_SERVER_ERROR, as in Kafka, if
            decompression fails.

    Source: Kafka's UnifiedLog.analyzeAndValidateRecords, LogValidator.
    """
    batch_entries = []
    for entry in entries(data, 0, len(data)):
        if entry.fault is not None:
            raise ApiError(Error.CORRUPT_MESSAGE, entry.fault.message)
        if entry.magic is not None:
            _check_size(entry.end - entry.start, settings, partition)
            batch_entries.append(entry)
    if not batch_entries:
        return None
    magic = batch_entries[0].magic
    if any(entry.magic != magic for entry in batch_entries):
        raise ApiError(
            Error.INVALID_RECORD, f"Batches of different formats in one message set in topic partition {partition}"
        )
    if magic != 2:
        converted = up_convert(bytes(data[: batch_entries[-1].end]), partition)
        _check_size(len(converted), settings, partition)
        return _prepare_batch(converted, settings, now, partition)
    if len(batch_entries) > 1:
        raise ApiError(Error.INVALID_RECORD, "Compressed outer record has more than one batch")
    return _prepare_batch(bytearray(data[: batch_entries[0].end]), settings, now, partition)


def _prepare_batch(data: bytearray, settings: LogSettings, now_ms: int, partition: str) -> PreparedBatch:
    header = _read_header(data, partition)
    records = _read_records(data, header)
    _check_records(records, header, settings, now_ms, partition)
    codec = codec_name(header.attributes)
    target_codec = {"producer": codec, "uncompressed": "none"}.get(settings.compression_type, settings.compression_type)
    if target_codec != codec:
        data = recompress(header, records, target_codec)
        _check_size(len(data), settings, partition)
    if settings.append_time:
        max_timestamp, timestamp_type = now_ms, TIMESTAMP_TYPE
    else:
        max_timestamp, timestamp_type = max(_NO_TIMESTAMP, *(record["timestamp"] for record in records)), 0
    return PreparedBatch(
        _set_timestamp(data, max_timestamp, timestamp_type), data, now_ms if settings.append_time else _NO_TIMESTAMP
    )


def _check_size(size: int, settings: LogSettings, partition: str) -> None:
    if size > settings.max_message_bytes:
        raise ApiError(
            Error.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {partition} is {size} bytes "
            f"which exceeds the maximum configured value of {settings.max_message_bytes}.",
        )


def _read_header(data: bytearray, partition: str) -> Header:
    """Parse and check the header of a batch from a client."""
    if len(data) < HEADER.size or google_crc32c.value(bytes(data[CRC_START:])) != read_header(data).crc:
        raise ApiError(Error.CORRUPT_MESSAGE, f"Record is corrupt in topic partition {partition}.")
    header = read_header(data)
    location = f"in topic partition {partition}"
    count = header.records_count
    problem = None
    if header.base_offset != 0:
        problem = (
            f"The baseOffset of the record batch in the append to {partition} should be 0, "
            f"but it is {header.base_offset}"
        )
    elif header.last_offset_delta < 0:
        problem = f"Batch has an invalid offset range: [0, {header.last_offset_delta}] {location}"
    elif count <= 0:
        problem = f"Invalid reported count for record batch: {count} {location}"
    elif header.last_offset_delta + 1 != count:
        problem = (
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {count} {location}"
        )
    elif header.control:
        problem = f"Clients are not allowed to write control records {location}"
    elif header.producer_id >= 0 and header.base_sequence < 0:
        problem = (
            f"Invalid sequence number {header.base_sequence} in record batch "
            f"with producerId {header.producer_id} {location}"
        )
    if problem is not None:
        raise ApiError(Error.INVALID_RECORD, problem)
    return header


def _read_records(data: bytearray, header: Header) -> list[dict[str, Any]]:
    payload = bytes(data[HEADER.size :])
    codec = header.attributes & _CODEC
    if codec:
        try:
            decompressor = Decompressor(DEFAULT_LIMIT)
            payload = decompressor.decompress(codec, payload, offset=0)
            decompressor.charge_records(header.records_count, offset=0)
        except DecodeError as error:  # Kafka has no specific code for these errors
            raise ApiError(Error.UNKNOWN_SERVER_ERROR, error.message) from None
    try:
        records = read_records(payload, header._asdict())
    except (Irregularity, IndexError):
        raise ApiError(Error.INVALID_RECORD, "Found invalid record structure") from None
    if codec and any(record["offset"] != index for index, record in enumerate(records)):
        raise ApiError(Error.INVALID_RECORD, "Offsets inside a compressed batch have gaps")
    return records


def _check_records(
    records: Iterable[dict[str, Any]], header: Header, settings: LogSettings, now_ms: int, partition: str
) -> None:
    record_errors: list[tuple[int, str]] = []
    error = Error.INVALID_RECORD
    uses_append_time = header.attributes & TIMESTAMP_TYPE
    for index, record in enumerate(records):
        timestamp = header.max_timestamp if uses_append_time else record["timestamp"]
        if settings.compacted and record["key"] is None:
            message = f"Compacted topic cannot accept message without key in topic partition {partition}"
            record_errors.append((index, message))
        elif not settings.append_time and timestamp != _NO_TIMESTAMP:
            earliest, latest = now_ms - settings.timestamp_before_max_ms, now_ms + settings.timestamp_after_max_ms
            if not earliest <= timestamp <= min(latest, _MAX_INT64):
                error = Error.INVALID_TIMESTAMP
                message = (
                    f"Timestamp {timestamp} of message with offset {record['offset']} is out of range. "
                    f"The timestamp should be within [{earliest}, {latest}]"
                )
                record_errors.append((index, message))
        elif uses_append_time:
            error = Error.INVALID_TIMESTAMP
            message = "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."
            record_errors.append((index, message))
    if not record_errors:
        return
    if error is Error.INVALID_TIMESTAMP:
        raise RecordValidationError(
            error, "One or more records have been rejected due to invalid timestamp", record_errors
        )
    first_errors = ", ".join(
        f"RecordError(batchIndex={index}, message='{message}')" for index, message in record_errors[:3]
    )
    raise RecordValidationError(
        error,
        f"One or more records have been rejected due to {len(record_errors)} record errors in total, "
        f"and only showing the first three errors at most: [{first_errors}]",
        record_errors,
    )


def _set_timestamp(data: bytearray, max_timestamp: int, timestamp_type: int) -> Header:
    """Set the timestamp type and maximum, and return the header; recompute the CRC only if they change."""
    header = read_header(data)
    if header.max_timestamp != max_timestamp or header.attributes & TIMESTAMP_TYPE != timestamp_type:
        attributes = header.attributes & ~TIMESTAMP_TYPE | timestamp_type
        data[_ATTRIBUTES_OFFSET : _ATTRIBUTES_OFFSET + 2] = attributes.to_bytes(2, "big", signed=True)
        data[_MAX_TIMESTAMP_OFFSET : _MAX_TIMESTAMP_OFFSET + 8] = max_timestamp.to_bytes(8, "big", signed=True)
        data[CRC_START - 4 : CRC_START] = google_crc32c.value(bytes(data[CRC_START:])).to_bytes(4, "big")
        return read_header(data)
    return header
