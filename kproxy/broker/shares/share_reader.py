"""Reads partitions for a member of a share group, and acquires records.

Source: Kafka's DelayedShareFetch, ShareFetchUtils.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.change_signal import ChangeSignal
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.leaders import LeaderHints
from kproxy.broker.log.batch import StoredBatch
from kproxy.broker.log.log import Log
from kproxy.broker.request import Request
from kproxy.broker.shares.acquisition import AcquiredRange
from kproxy.broker.shares.partition import SharePartition
from kproxy.broker.shares.settings import ShareSettings
from kproxy.broker.shares.shares import SharePartitions
from kproxy.broker.topics import Partition, Topics

#: Kafka's broker config fetch.max.bytes.
_MAX_BYTES: Final = 55 << 20
_STRICT: Final = 1  # share_acquire_mode


@dataclass(slots=True)
class ShareRead:
    """The data of one partition.

    Attributes:
        partition: The topic id and index of the partition.
        log: Its log.
        share_partition: Its share partition.
        offset: The offset from which the batches were read.
        batches: The batches that were read.
    """

    partition: TopicIdPartition
    log: Log
    share_partition: SharePartition
    offset: int = 0
    batches: Sequence[StoredBatch] = ()

    @property
    def size(self) -> int:
        """Size of the batches in bytes."""
        return sum(len(batch.data) for batch in self.batches)


class ShareReader:
    """Reads for one ShareFetch; each call of `read` starts over.

    Attributes:
        reads: The data of the partitions that can be read.
        refused: The errors of the other partitions.
        max_bytes: Approximate size of the response.
    """

    def __init__(self, request: Request, leaders: LeaderHints) -> None:
        body = request.body
        self.reads: list[ShareRead] = []
        self.refused: dict[TopicIdPartition, ApiError] = {}
        self.max_bytes = min(body["max_bytes"], _MAX_BYTES)
        self._request = request
        self._group: str = body["group_id"]
        self._leaders = leaders
        self._topics = request.cluster.part(Topics)
        self._shares = request.cluster.part(SharePartitions)
        self._is_read_committed = request.cluster.part(ShareSettings).read_committed(self._group)

    def read(self, topic_id_partitions: Sequence[TopicIdPartition]) -> None:
        """Read partitions, each with about an equal share of the bytes."""
        self.reads, self.refused = [], {}
        for topic_id_partition in topic_id_partitions:
            try:
                partition = self._find_partition(topic_id_partition)
                self.reads.append(
                    ShareRead(topic_id_partition, partition.log, self._shares.open(self._group, partition))
                )
            except ApiError as api_error:
                self.refused[topic_id_partition] = api_error
        acquirable, remaining_bytes, at_least_one = self.acquirable, self.max_bytes, True
        for read in acquirable:
            byte_limit = min(remaining_bytes, self.max_bytes // len(acquirable))
            self._read(read, byte_limit, at_least_one=at_least_one)
            at_least_one &= not read.batches
            remaining_bytes = max(0, remaining_bytes - read.size)

    @property
    def acquirable(self) -> list[ShareRead]:
        """The partitions that have room for more records in flight."""
        return [read for read in self.reads if read.share_partition.has_room]

    def changes(self) -> Iterator[ChangeSignal]:
        """Yield the signals to wait for if there is not enough data."""
        yield self._topics.changed
        for read in self.reads:
            yield read.share_partition.changed
            yield read.log.changed

    def acquire(self) -> dict[TopicIdPartition, dict[str, Any]]:
        """Acquire the records for the member, up to its limit; return the result for each partition."""
        remaining_records, results = self._request.body["max_records"], {}
        for read in self.acquirable:
            acquired = self._acquire(read, remaining_records)
            remaining_records -= sum(run.last - run.first + 1 for run in acquired)
            results[read.partition] = _acquired_result(read, acquired)
        return results | {
            topic_id_partition: self._error_result(topic_id_partition, api_error)
            for topic_id_partition, api_error in self.refused.items()
        }

    def _find_partition(self, topic_id_partition: TopicIdPartition) -> Partition:
        if (topic := self._topics.by_id(topic_id_partition[0])) is None:
            raise ApiError(Error.UNKNOWN_TOPIC_ID)
        require(self._request, "READ", "TOPIC", topic.name)
        return self._topics.find_led_partition(self._request.node, topic, topic_id_partition[1])

    def _read(self, read: ShareRead, byte_limit: int, *, at_least_one: bool) -> None:
        share_partition, log = read.share_partition, read.log
        if share_partition.next_offset < log.start_offset:
            share_partition.move_start(log.start_offset)
        read.offset = share_partition.next_offset
        end_offset = log.last_stable_offset if self._is_read_committed else log.high_watermark
        read.batches = log.read(read.offset, end_offset, byte_limit, at_least_one=at_least_one)

    def _acquire(self, read: ShareRead, max_records: int) -> list[AcquiredRange]:
        body = self._request.body
        is_strict = body.get("share_acquire_mode", 0) == _STRICT
        acquired = read.share_partition.acquire(
            body["member_id"], read.batches, read.offset, max_records, body["batch_size"], strict=is_strict
        )
        if self._is_read_committed and acquired:
            for batch in aborted_batches(read.log, read.batches):
                read.share_partition.archive(batch.base_offset, batch.last_offset)
                acquired = [
                    remaining_range
                    for acquired_range in acquired
                    for remaining_range in _exclude(acquired_range, batch)
                ]
        return acquired

    def _error_result(self, topic_id_partition: TopicIdPartition, api_error: ApiError) -> dict[str, Any]:
        result: dict[str, Any] = {
            "partition_index": topic_id_partition[1],
            "error_code": api_error.error,
            "error_message": api_error.message,
            "records": b"",
        }
        if (
            api_error.error is Error.NOT_LEADER_OR_FOLLOWER
            and (topic := self._topics.by_id(topic_id_partition[0])) is not None
        ):
            result["current_leader"] = self._leaders.current_leader(
                self._topics.partition(topic.name, topic_id_partition[1])
            )
        return result


def aborted_batches(log: Log, batches: Sequence[StoredBatch]) -> Iterator[StoredBatch]:
    """Yield the batches that are part of aborted transactions."""
    if not batches:
        return
    headers = [(batch, batch.header) for batch in batches]
    for transaction in log.aborted_transactions(batches[0].base_offset, batches[-1].last_offset + 1):
        for batch, header in headers:
            if (
                header.transactional
                and not header.control
                and header.producer_id == transaction.producer_id
                and transaction.first_offset <= batch.base_offset <= transaction.last_offset
            ):
                yield batch


def _exclude(acquired: AcquiredRange, batch: StoredBatch) -> Iterator[AcquiredRange]:
    """Yield what remains of an acquired range without the records of a batch."""
    if acquired.first <= min(acquired.last, batch.base_offset - 1):
        yield acquired._replace(last=min(acquired.last, batch.base_offset - 1))
    if acquired.last >= max(acquired.first, batch.last_offset + 1):
        yield acquired._replace(first=max(acquired.first, batch.last_offset + 1))


def _acquired_result(read: ShareRead, acquired: Sequence[AcquiredRange]) -> dict[str, Any]:
    """Return a partition's result, with the batches that contain acquired records."""
    record_data = [
        batch.data
        for batch in read.batches
        if acquired and batch.last_offset >= acquired[0].first and batch.base_offset <= acquired[-1].last
    ]
    return {
        "partition_index": read.partition[1],
        "records": b"".join(record_data),
        "acquired_records": [
            {"first_offset": run.first, "last_offset": run.last, "delivery_count": run.deliveries} for run in acquired
        ],
    }


def group_by_topic(results: Mapping[TopicIdPartition, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the results of partitions, grouped by topic."""
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for (topic_id, _), result in results.items():
        topics.setdefault(topic_id, []).append(result)
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]
