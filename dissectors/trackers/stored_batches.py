"""StoredBatches: the positions of format 2 batches in partition logs, from recent Produce and Fetch messages."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.messages.topic_records import first_batch
from dissectors.records.batch import HEADER
from dissectors.records.record_checks import BatchSpan
from dissectors.trackers import tracker
from dissectors.trackers.compacted_topics import Compacted
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import TopicPartition, topic_name_or_id
from dissectors.trackers.record_data import (
    BatchSampler,
    PartitionData,
    RecordData,
    record_data,
    sent_records,
)
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: How long a batch is certain to keep its position (ns): later the log may be compacted or the topic recreated.
STABLE_FOR = 10 * 1_000_000_000

_MAX_PARTITIONS = 2_000
_MAX_BATCHES = 16
_MAX_PER_FETCH = 8
_IRREGULAR = FrameFlags.IRREGULAR.value


class ObservedBatch(NamedTuple):
    """A batch in a log: its last offset, when it was observed, and its header as produced, if known."""

    last_offset: int
    at: int
    produced: bytes | None


class SkippedBatch(NamedTuple):
    """A fetch response that begins after the batch with the fetch offset."""

    part: PartitionData
    offset: int
    base_offset: int
    last_offset: int


class RewrittenBatch(NamedTuple):
    """A batch whose fetched bytes differ from the produced ones; `nth` is its index in the part."""

    part: PartitionData
    nth: int
    produced: BatchSpan


Log = dict[int, ObservedBatch]


@tracker(
    events=(ResponseReceived,),
    apis=("Produce", "Fetch"),
    needs=(Compacted, Fetches, RecordData),
)
class StoredBatches:
    """The latest batches of a run's partitions by base offset, kept separately for each server.

    Produced batches are sampled by `BatchSampler`: a server with this bug shows it in every batch. `skipped` and
    `rewritten` are the findings of the latest response.
    """

    def __init__(self) -> None:
        self.skipped: list[SkippedBatch] = []
        self.rewritten: list[RewrittenBatch] = []
        self._logs: BoundedDict[tuple[str, TopicPartition], Log] = BoundedDict(_MAX_PARTITIONS)

    def has_batches(self, topic_partition: TopicPartition, connection: ConnectionState) -> bool:
        """Whether batches of format 2 were observed in a partition."""
        return bool(self._logs.get(_key(topic_partition, connection)))

    def observe(self, event: ResponseReceived, connection: ConnectionState) -> None:
        """Track the positions of batches."""
        self.skipped, self.rewritten = [], []
        if event.message is None or not connection.server:
            return
        if event.message.api == "Produce":
            self._observe_produced(event, connection)
        elif parts := record_data(event, connection).parts:
            offsets = connection.state(Fetches).sessions.offsets(event.request)
            for part in parts:
                self._observe_fetched(part, offsets.get(part.topic_partition), event, connection)
            if self.skipped or self.rewritten:
                connection.flags |= _IRREGULAR

    def _observe_fetched(
        self, part: PartitionData, offset: int | None, event: ResponseReceived, connection: ConnectionState
    ) -> None:
        batches = part.batches
        if not batches or batches[0].magic != 2:
            return
        log = self._logs.touch(_key(part.topic_partition, connection), dict)
        first_offset = batches[0].base_offset
        if offset is not None and offset < first_offset:
            for base_offset, (last_offset, at, _) in log.items():
                if base_offset <= offset <= last_offset < first_offset and event.at - at < STABLE_FOR:
                    self.skipped.append(SkippedBatch(part, offset, base_offset, last_offset))
        for index, batch in enumerate(batches[-_MAX_PER_FETCH:], max(0, len(batches) - _MAX_PER_FETCH)):
            stored = log.get(batch.base_offset)
            header = stored.produced if stored is not None else None
            if stored is not None and header is not None:
                produced = first_batch(header)
                if produced is not None and produced.crc != batch.crc:
                    header = None
                    if event.at - stored.at < STABLE_FOR:
                        self.rewritten.append(RewrittenBatch(part, index, produced))
            _store_batch(log, batch.base_offset, ObservedBatch(batch.last_offset, event.at, header))

    def _observe_produced(self, event: ResponseReceived, connection: ConnectionState) -> None:
        message = event.message
        if event.request_body is None or message is None:
            return
        compacted = connection.run.state(Compacted).topics
        sampler = connection.state(BatchSampler)
        for topic in message.body.get("responses", ()):
            name = topic_name_or_id(topic)
            for row in topic.get("partition_responses", ()):
                base_offset = row.get("base_offset", -1)
                if row.get("error_code") or base_offset < 0:
                    connection.flags |= _IRREGULAR
                elif sampler.selects(StoredBatches, name):
                    self._store_produced((name, row.get("index", 0)), base_offset, event, connection)
        if compacted:
            connection.flags |= _IRREGULAR

    def _store_produced(
        self, topic_partition: TopicPartition, base_offset: int, event: ResponseReceived, connection: ConnectionState
    ) -> None:
        records = sent_records(event.request).get(topic_partition)
        if records is not None and records.data is not None and records.batch is not None:
            header = bytes(records.data[: HEADER.size])
            last_offset = base_offset + max(0, records.batch.records_count - 1)
            log = self._logs.touch(_key(topic_partition, connection), dict)
            _store_batch(log, base_offset, ObservedBatch(last_offset, event.at, header))


def _store_batch(log: Log, base_offset: int, stored: ObservedBatch) -> None:
    log[base_offset] = stored
    if len(log) > _MAX_BATCHES:
        del log[next(iter(log))]


def _key(topic_partition: TopicPartition, connection: ConnectionState) -> tuple[str, TopicPartition]:
    topic, partition = topic_partition
    return connection.server, (connection.run.topic_names.get(topic, topic), partition)
