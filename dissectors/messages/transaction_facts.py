"""Facts about transactions in a message: its producer, markers, and partitions held back by an open transaction."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from dissectors.messages.message import Message
from dissectors.messages.topic_records import topic_records
from dissectors.records.batch import HEADER
from dissectors.records.control import TYPES
from dissectors.records.formats import CONTROL, LOG_OVERHEAD, TRANSACTIONAL
from dissectors.records.record_checks import BatchSpan
from dissectors.records.varint import read_zigzag
from dissectors.wire.primitives import Irregularity

#: The APIs by which a client coordinates its transactions.
APIS: Final = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")

#: The first version of AddPartitionsToTxn that only brokers send, e.g. to verify a producer's transaction (KIP-890).
FIRST_ADD_PARTITIONS_VERSION_OF_BROKERS: Final = 4
_MAGIC: Final = 2
#: The offsets of the length and the format in a batch.
_LENGTH_AT, _MAGIC_AT = 8, 16
_HEADER_SIZE: Final = HEADER.size
_read_length = struct.Struct(">i").unpack_from
_MAX_BATCHES: Final = 1_000
_MAX_MARKERS: Final = 1_000
_TRANSACTION_FLAGS: Final = TRANSACTIONAL | CONTROL
_CONTROL_KEY: Final = struct.Struct(">hh")
_MARKERS: Final = {number: name == "COMMIT" for number, name in TYPES.items() if name in ("ABORT", "COMMIT")}


class TransactionMarker(NamedTuple):
    """The end of a transaction in a partition. `topic` is a name or an id; `offset` is None in WriteTxnMarkers."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    committed: bool
    offset: int | None = None


class HeldPartition(NamedTuple):
    """A partition with a last stable offset below the high watermark: an open transaction began at that offset.

    `producer_id` and `producer_epoch` are those of the batch at the offset, -1 if the message does not have that batch.
    `brought` tells whether the message has records of the partition.
    """

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int
    producer_id: int = -1
    producer_epoch: int = -1
    brought: bool = False


class PartitionEnds(NamedTuple):
    """What a message shows about the ends of partitions."""

    markers: list[TransactionMarker]
    held: list[HeldPartition]


_NO_ENDS: Final = PartitionEnds([], [])


def partition_ends(message: Message) -> PartitionEnds:
    """Return the markers in a Fetch response or WriteTxnMarkers request, and the partitions held back by transactions.

    Markers in a Fetch response are read only for partitions that are held or begin with a batch of a transaction.
    """
    ends: PartitionEnds | None = message.ends_cache
    if ends is None:
        ends = message.ends_cache = _fetch_ends(message) if message.api == "Fetch" else _marker_ends(message)
    return ends


def _fetch_ends(message: Message) -> PartitionEnds:
    markers: list[TransactionMarker] = []
    held_partitions: list[HeldPartition] = []
    for topic in topic_records(message):
        for partition, row, data, batch, complete_batches in topic.partitions:
            last_stable_offset, high_watermark = row.get("last_stable_offset", -1), row.get("high_watermark", -1)
            is_held = 0 <= last_stable_offset < high_watermark
            if not is_held and (batch is None or not batch.attributes & _TRANSACTION_FLAGS):
                continue  # nearly all partitions
            topic_partition, producer = (topic.key, partition or 0), (-1, -1)
            for header in complete_batches or _read_batches(data):
                if header.attributes & CONTROL:
                    marker = _read_marker(topic_partition, header, data)
                    if marker is not None and len(markers) < _MAX_MARKERS:
                        markers.append(marker)
                elif (
                    is_held
                    and header.attributes & TRANSACTIONAL
                    and header.base_offset <= last_stable_offset <= header.last_offset
                ):
                    producer = header.producer_id, header.producer_epoch
            if is_held:
                held_partitions.append(
                    HeldPartition(*topic_partition, last_stable_offset, high_watermark, *producer, brought=bool(data))
                )
    return PartitionEnds(markers, held_partitions) if markers or held_partitions else _NO_ENDS


def _read_batches(data: bytes | memoryview | None) -> Iterator[BatchSpan]:
    """Yield the headers of the complete batches in record data, up to the first batch of another format."""
    if data is None:
        return
    pos, size = 0, len(data)
    for _ in range(_MAX_BATCHES):
        if pos + _HEADER_SIZE > size or data[pos + _MAGIC_AT] != _MAGIC:
            return
        end = pos + LOG_OVERHEAD + _read_length(data, pos + _LENGTH_AT)[0]
        if end < pos + _HEADER_SIZE or end > size:
            return
        yield BatchSpan(pos, end, *HEADER.unpack_from(data, pos))
        pos = end


def _read_marker(
    topic_partition: tuple[str, int], batch: BatchSpan, data: bytes | memoryview | None
) -> TransactionMarker | None:
    """Return the transaction marker in a control batch; None if it has another control record."""
    assert data is not None
    body = bytes(data[batch.start + HEADER.size : min(batch.end, batch.start + HEADER.size + 64)])
    try:
        _, pos = read_zigzag(body, 0)  # length
        _, pos = read_zigzag(body, pos + 1, 64)  # attributes, time
        _, pos = read_zigzag(body, pos)  # offset
        size, pos = read_zigzag(body, pos)
    except (IndexError, Irregularity):
        return None
    if size < _CONTROL_KEY.size or pos + _CONTROL_KEY.size > len(body):
        return None
    committed = _MARKERS.get(_CONTROL_KEY.unpack_from(body, pos)[1])
    if committed is None:
        return None
    return TransactionMarker(*topic_partition, batch.producer_id, batch.producer_epoch, committed, batch.base_offset)


def _marker_ends(message: Message) -> PartitionEnds:
    if message.api != "WriteTxnMarkers" or not message.is_request or not message.well_formed:
        return _NO_ENDS
    markers = [
        TransactionMarker(
            topic["name"], partition, marker["producer_id"], marker["producer_epoch"], marker["transaction_result"]
        )
        for marker in message.body.get("markers") or ()
        for topic in marker.get("topics") or ()
        for partition in topic.get("partition_indexes") or ()
    ]
    return PartitionEnds(markers[:_MAX_MARKERS], []) if markers else _NO_ENDS


def producer_of(message: Message) -> tuple[int, int] | None:
    """Return the producer id and epoch in a message; None if it has no producer or several."""
    body = message.body
    if message.api == "Produce":
        rows = (partition for topic in topic_records(message) for partition in topic.partitions)
        batch = next((row.batch for row in rows if row.batch is not None), None)
        return None if batch is None else _known_producer(batch.producer_id, batch.producer_epoch)
    if transactions := body.get("transactions"):  # AddPartitionsToTxn of a broker, from version 4 on
        body = transactions[0] if len(transactions) == 1 else {}
    producer_id = body.get("producer_id", body.get("v3_and_below_producer_id", -1))
    return _known_producer(producer_id, body.get("producer_epoch", body.get("v3_and_below_producer_epoch", -1)))


def _known_producer(producer_id: int, epoch: int) -> tuple[int, int] | None:
    return None if producer_id < 0 or epoch < 0 else (producer_id, epoch)


def only_verifies(body: Mapping[str, Any]) -> bool:
    """Whether an AddPartitionsToTxn request of a broker only checks that a transaction has partitions."""
    transactions = body.get("transactions") or ()
    return bool(transactions) and all(transaction.get("verify_only") for transaction in transactions)
