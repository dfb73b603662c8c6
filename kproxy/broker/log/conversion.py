"""Converts batches between the record formats and codecs of clients and logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dissectors.records import decode, encode
from dissectors.records.compression import codec_name
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log.batch import Header, StoredBatch


def up_convert(data: bytes, partition: str) -> bytearray:
    """Convert message sets of format 0 or 1 to one batch of format 2 with the same codec, as Kafka before 4.0 does.

    Args:
        data: Complete messages of one format.
        partition: ``topic-0``, for error messages.

    Raises:
        ApiError: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP.
    """
    batches = decode(data)
    codec = batches[0]["compression"]
    if len(batches) > 1 and any(batch["compression"] != "none" for batch in batches):
        raise ApiError(Error.INVALID_RECORD, "Compressed outer record has more than one batch")
    records = []
    for batch in batches:
        if not batch["crc_valid"] or any("crc" in record for record in batch["records"]):
            raise ApiError(Error.CORRUPT_MESSAGE, f"Record is corrupt in topic partition {partition}.")
        if "error" in batch:
            raise ApiError(Error.INVALID_RECORD, batch["error"])
        if batch.get("timestamp_type") == "LogAppendTime":
            raise ApiError(Error.INVALID_TIMESTAMP, "Producer should not set timestamp type to LogAppendTime.")
        records += batch["records"]
    values = [{**record, "offset": index} for index, record in enumerate(records)]
    return bytearray(encode([{"records": values, "compression": codec}]))


def recompress(header: Header, records: Iterable[dict[str, Any]], compression: str) -> bytearray:
    """Return a batch with the same records, compressed with another codec.

    Args:
        header: The original header.
        records: The records, as returned by `dissectors.records.decode`.
        compression: The new codec.
    """
    batch = {
        "compression": compression,
        "base_timestamp": header.base_timestamp,
        "is_transactional": header.transactional,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "records": list(records),
        "last_offset_delta": header.last_offset_delta,
    }
    return bytearray(encode([batch]))


def down_convert(batch: StoredBatch, magic: int, offset: int) -> bytes:
    """Convert a batch to messages of format 0 or 1, for fetch versions that need it.

    Headers, sequences and, in format 0, timestamps are lost; a control batch becomes empty. As in Kafka, records before
    the requested `offset` are omitted unless they are compressed.

    Raises:
        ApiError: UNSUPPORTED_COMPRESSION_TYPE: the old formats do not support zstd.
    """
    header = batch.header
    if header.control:
        return b""
    codec = codec_name(header.attributes)
    if codec == "zstd":
        raise ApiError(
            Error.UNSUPPORTED_COMPRESSION_TYPE, "Down-conversion of zstandard-compressed batches is not supported"
        )
    [decoded] = decode(batch.data)
    records = [record for record in decoded["records"] if codec != "none" or record["offset"] >= offset]
    if not records:
        return b""
    batch_fields = {name: decoded[name] for name in ("last_offset", "compression", "timestamp_type", "max_timestamp")}
    return encode([{**batch_fields, "magic": magic, "base_offset": records[0]["offset"], "records": records}])
