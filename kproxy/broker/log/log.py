"""Log: the batches of one partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dissectors.records import decode
from kproxy.broker.change_signal import ChangeSignal
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log.batch import Marker, StoredBatch, build_marker, read_marker
from kproxy.broker.log.epochs import LeaderEpochs
from kproxy.broker.log.index import BatchIndex
from kproxy.broker.log.logs import Logs
from kproxy.broker.log.producers import AbortedTransaction, ProducerStates
from kproxy.broker.storage.segments import Segments

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

_OVERHEAD: Final = 256  # bytes of memory per batch, in addition to its data


class Log:
    """The batches of a partition, by offset.

    All brokers share one log per partition, so appended batches are committed immediately: the high watermark is the
    log end offset. All batches have format 2.

    Attributes:
        topic: The topic's name.
        name: The name of the topic with the partition index, e.g. ``topic-0``.
        key: A unique key, different for a recreated topic of the same name.
        changed: Notified when there is more to read: after an append, the end of a transaction, and on close.
        producers: The producers with an id that have written to the log, and their transactions.
        epochs: The start offset of each leader epoch.
        start_offset: The first offset that can be read.
        end_offset: One past the last offset.
        size: Size of all batches in bytes.
        closed: Whether the partition has been deleted.

    Raises:
        ApiError: KAFKA_STORAGE_ERROR: its files cannot be read, or its directory cannot be created.
    """

    def __init__(self, cluster: Cluster, topic: str, topic_id: str, index: int) -> None:
        self.topic = topic
        self.name = f"{topic}-{index}"
        self.key = f"{topic_id}-{index}"
        self.changed = ChangeSignal()
        self.producers = ProducerStates(self.name)
        self.epochs = LeaderEpochs()
        self.size = 0
        self.closed = False
        self._cluster = cluster
        self._batches = BatchIndex()
        self._logs = cluster.part(Logs)
        self.start_offset = self.end_offset = self._logs.start_offset(self.key)
        self._segments: Segments | None = None
        try:
            self._segments = self._logs.segments(topic, index, topic_id)
            self._logs.add(self)
            if self._segments is not None:
                for batch in self._segments.load():
                    self._load(batch)
        except OSError as error:
            self._logs.discard(self)
            self.close()
            raise self._report_storage_error(error) from None

    @property
    def high_watermark(self) -> int:
        """One past the last offset that consumers may see."""
        return self.end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset before which all transactions are complete."""
        first_open = self.producers.first_open
        return self.end_offset if first_open is None else max(first_open, self.start_offset)

    @property
    def memory(self) -> int:
        """The memory that the log uses, in bytes."""
        return self.size + _OVERHEAD * len(self._batches)

    def append(self, batch: StoredBatch) -> None:
        """Append a batch with consecutive offsets, and wake waiting readers.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR.
        """
        if self._segments is not None:
            try:
                self._segments.append(batch)
            except OSError as error:
                raise self._report_storage_error(error) from None
        self._append(batch)
        self.changed.notify()

    def append_marker(self, producer_id: int, producer_epoch: int, coordinator_epoch: int, *, commit: bool) -> int:
        """End a producer's transaction with a control batch, even if this log has none; return the batch's offset.

        Raises:
            ApiError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
        """
        offset = self.end_offset
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, offset)
        marker = Marker(commit, coordinator_epoch)
        self.append(
            build_marker(offset, self.epochs.latest, producer_id, producer_epoch, marker, self._cluster.clock.now())
        )
        return offset

    async def wait_until_synced(self) -> None:
        """Wait until all appended data is as durable as configured: with fsync, until it is on disk.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR: the data may be lost.
        """
        if self._segments is not None and self._cluster.options.fsync:
            try:
                await self._segments.wait_until_synced()
            except OSError as error:
                raise self._report_storage_error(error) from None

    def begin_epoch(self, epoch: int) -> None:
        """Start a new leader epoch."""
        self.epochs.begin(epoch, self.end_offset)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in [`start`, `end`), sorted by their end."""
        return self.producers.aborted_transactions(start, end)

    def read(self, offset: int, end: int, max_bytes: int, *, at_least_one: bool) -> list[StoredBatch]:
        """Return whole batches of at most `max_bytes` in total, from the one that contains `offset` up to `end`.

        Args:
            offset: First offset.
            end: One past the last offset.
            max_bytes: Limit for all batches.
            at_least_one: Whether to return the first batch even if it is larger.
        """
        batches: list[StoredBatch] = []
        for batch in self.batches(offset, end):
            max_bytes -= len(batch.data)
            if max_bytes < 0 and (batches or not at_least_one):
                break
            batches.append(batch)
        return batches

    def batches(self, offset: int, end: int) -> Iterator[StoredBatch]:
        """Yield the batches from the one that contains `offset`, as long as they start before `end`."""
        for position in range(self._batches.position_of_offset(offset), len(self._batches)):
            batch = self._batches[position]
            if batch.base_offset >= end:
                return
            yield batch

    @property
    def greatest_timestamp(self) -> int:
        """The highest timestamp of all records in ms; -1 if there is none."""
        return self._batches.greatest_timestamp

    def record_since(self, timestamp: int) -> tuple[int, int] | None:
        """Return the offset and timestamp of the first record from that time or later; None if there is none."""
        for position in range(self._batches.position_of_timestamp(timestamp), len(self._batches)):
            [batch] = decode(self._batches[position].data)
            for record in batch["records"]:
                if record["timestamp"] >= timestamp and record["offset"] >= self.start_offset:
                    return record["offset"], record["timestamp"]
        return None

    def delete_before(self, offset: int) -> None:
        """Move the start of the log to `offset`, and delete the batches before it."""
        self.start_offset = offset
        removed = self._batches.delete_first(self._batches.position_of_offset(offset))
        removed_size = sum(len(batch.data) for batch in removed)
        self.size -= removed_size
        self.producers.forget_before(offset)
        self.epochs.forget_before(offset)
        self._logs.store_start(self)
        if self._segments is not None:
            try:
                self._segments.delete_before(offset)
            except OSError as error:  # the files are kept; their records are before the start offset
                self._report_storage_error(error)
        self._logs.add_memory(-removed_size - _OVERHEAD * len(removed))

    def delete_oldest(self, size: int) -> None:
        """Delete the oldest batches: at least one, and at least `size` bytes if there are that many."""
        for batch in self.batches(self.start_offset, self.end_offset):
            size -= len(batch.data) + _OVERHEAD
            if size <= 0:
                self.delete_before(batch.last_offset + 1)
                return
        self.delete_before(self.end_offset)

    def retain(self, max_bytes: int, oldest_timestamp: int | None) -> None:
        """Delete the oldest batches beyond a total size in bytes (-1 for no limit), or older than a time."""
        start, remaining_size = self.start_offset, self.size
        for batch in self.batches(self.start_offset, self.end_offset):
            remaining_size -= len(batch.data)
            is_expired = oldest_timestamp is not None and -1 < batch.max_timestamp < oldest_timestamp
            if not is_expired and not 0 <= max_bytes <= remaining_size:
                break
            start = batch.last_offset + 1
        if start != self.start_offset:
            self.delete_before(start)

    def delete(self) -> None:
        """Delete the log's data with its partition, and wake waiting readers."""
        self.closed = True
        self._logs.remove(self)
        if self._segments is not None:
            self._segments.delete()
        self.changed.notify()

    def close(self) -> None:
        """Close the files; the data remains on disk."""
        if self._segments is not None:
            self._segments.close()

    def _report_storage_error(self, error: OSError) -> ApiError:
        path = Path(error.filename or self.name)
        self._cluster.storage.record_failure(path, error)
        return ApiError(Error.KAFKA_STORAGE_ERROR, f"{path}: {error.strerror}")

    def _load(self, batch: StoredBatch) -> None:
        if batch.last_offset < self.start_offset:
            return
        if not len(self._batches):
            self.start_offset = max(self.start_offset, batch.base_offset)
        self.epochs.begin(batch.header.partition_leader_epoch, batch.base_offset)
        self._append(batch)

    def _append(self, batch: StoredBatch) -> None:
        header = batch.header
        self._batches.append(batch)
        self.size += len(batch.data)
        self.end_offset = batch.last_offset + 1
        if header.control:
            [decoded] = decode(batch.data)
            if decoded["records"] and (marker := read_marker(decoded["records"][0])) is not None:
                self.producers.record_marker(header, marker)
        elif header.producer_id >= 0:
            self.producers.record_batch(header)
        self._logs.add_memory(len(batch.data) + _OVERHEAD)
