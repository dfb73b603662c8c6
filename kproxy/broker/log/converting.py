"""Converting: batches made anew where a log has them otherwise than a client sends or reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dissectors.records import decode, encode
from dissectors.records.compression import codec_name
from kproxy.broker.errors import Error, Refused
from kproxy.broker.log.batch import Header, StoredBatch


def upgraded(data: bytes, partition: str) -> bytearray:
    """Message sets of format 0 or 1 as one batch of format 2 with their codec, as Kafka before 4.0 stored them.

    Args:
        data: Whole messages of one format.
        partition: ``topic-0``, for messages.

    Raises:
        Refused: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP.
    """
    batches = decode(data)
    codec = batches[0]["compression"]
    if len(batches) > 1 and any(batch["compression"] != "none" for batch in batches):
        raise Refused(Error.INVALID_RECORD, "Compressed outer record has more than one batch")
    records = []
    for batch in batches:
        if not batch["crc_valid"] or any("crc" in record for record in batch["records"]):
            raise Refused(Error.CORRUPT_MESSAGE, f"Record is corrupt in topic partition {partition}.")
        if "error" in batch:
            raise Refused(Error.INVALID_RECORD, batch["error"])
        if batch.get("timestamp_type") == "LogAppendTime":
            raise Refused(Error.INVALID_TIMESTAMP, "Producer should not set timestamp type to LogAppendTime.")
        records += batch["records"]
    values = [{**record, "offset": index} for index, record in enumerate(records)]
    return bytearray(encode([{"records": values, "compression": codec}]))


def rebuilt(header: Header, records: Iterable[dict[str, Any]], compression: str) -> bytearray:
    """A batch with the same records, compressed otherwise.

    Args:
        header: Of the batch as it was.
        records: Its records, as `dissectors.records.decode` gives them.
        compression: Its codec.
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


def downgraded(batch: StoredBatch, magic: int, offset: int) -> bytes:
    """A batch as messages of format 0 or 1, for those who fetch in versions that know no other.

    Headers, sequences and, in format 0, timestamps are lost; a control batch becomes nothing. Like Kafka it leaves out
    records before `offset`, which is asked for, unless they are compressed.

    Raises:
        Refused: UNSUPPORTED_COMPRESSION_TYPE: the old formats have no zstd.
    """
    header = batch.header
    if header.control:
        return b""
    codec = codec_name(header.attributes)
    if codec == "zstd":
        raise Refused(
            Error.UNSUPPORTED_COMPRESSION_TYPE, "Down-conversion of zstandard-compressed batches is not supported"
        )
    [read] = decode(batch.data)
    records = [record for record in read["records"] if codec != "none" or record["offset"] >= offset]
    if not records:
        return b""
    kept = {name: read[name] for name in ("last_offset", "compression", "timestamp_type", "max_timestamp")}
    return encode([{**kept, "magic": magic, "base_offset": records[0]["offset"], "records": records}])
