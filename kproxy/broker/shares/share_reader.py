"""Reads partitions for a member of a share group, and acquires records.

Source: Kafka's DelayedShareFetch, ShareFetchUtils.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.change_signal import Changed
from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups.assignors import Part
from kproxy.broker.leaders import LeaderHints
from kproxy.broker.log.batch import StoredBatch
from kproxy.broker.log.log import Log
from kproxy.broker.request import Request
from kproxy.broker.shares.acquisition import Acquired
from kproxy.broker.shares.partition import SharePartition
from kproxy.broker.shares.settings import ShareSettings
from kproxy.broker.shares.shares import Shares
from kproxy.broker.topics import Partition, Topics

#: Kafka's broker config fetch.max.bytes.
_MAX_BYTES: Final = 55 << 20
_STRICT: Final = 1  # share_acquire_mode


@dataclass(slots=True)
class ShareRead:
    """The data of one partition.

    Attributes:
        part: The partition's key.
        log: Its log.
        share: Its share partition.
        offset: The offset read from.
        batches: The batches read.
    """

    part: Part
    log: Log
    share: SharePartition
    offset: int = 0
    batches: Sequence[StoredBatch] = ()

    @property
    def size(self) -> int:
        """Size of the batches in bytes."""
        return sum(len(batch.data) for batch in self.batches)


class ShareReader:
    """Reads for one ShareFetch; each call reads again.

    Attributes:
        reads: The partitions that exist.
        refused: The errors of the others.
        max_bytes: Approximate size of the response.
    """

    def __init__(self, request: Request, leaders: LeaderHints) -> None:
        body = request.body
        self.reads: list[ShareRead] = []
        self.refused: dict[Part, Refused] = {}
        self.max_bytes = min(body["max_bytes"], _MAX_BYTES)
        self._request = request
        self._group: str = body["group_id"]
        self._leaders = leaders
        self._topics = request.cluster.part(Topics)
        self._shares = request.cluster.part(Shares)
        self._committed = request.cluster.part(ShareSettings).read_committed(self._group)

    def read(self, parts: Sequence[Part]) -> None:
        """Read partitions, each with about an equal share of the bytes."""
        self.reads, self.refused = [], {}
        for part in parts:
            try:
                partition = self._partition(part)
                self.reads.append(ShareRead(part, partition.log, self._shares.open(self._group, partition)))
            except Refused as refused:
                self.refused[part] = refused
        acquirable, left, one_at_least = self.acquirable, self.max_bytes, True
        for read in acquirable:
            limit = min(left, self.max_bytes // len(acquirable))
            self._read(read, limit, one_at_least=one_at_least)
            one_at_least &= not read.batches
            left = max(0, left - read.size)

    @property
    def acquirable(self) -> list[ShareRead]:
        """The partitions that have room for more records in flight."""
        return [read for read in self.reads if read.share.has_room]

    def changes(self) -> Iterator[Changed]:
        """What to wait for if there is not enough data."""
        yield self._topics.changed
        for read in self.reads:
            yield read.share.changed
            yield read.log.changed

    def acquired(self) -> dict[Part, dict[str, Any]]:
        """Acquire the records for the member, up to its limit; return the results for the partitions."""
        left, results = self._request.body["max_records"], {}
        for read in self.acquirable:
            acquired = self._acquire(read, left)
            left -= sum(run.last - run.first + 1 for run in acquired)
            results[read.part] = _result(read, acquired)
        return results | {part: self._refusal(part, refused) for part, refused in self.refused.items()}

    def _partition(self, part: Part) -> Partition:
        if (topic := self._topics.with_id(part[0])) is None:
            raise Refused(Error.UNKNOWN_TOPIC_ID)
        require(self._request, "READ", "TOPIC", topic.name)
        return self._topics.led_by(self._request.node, topic, part[1])

    def _read(self, read: ShareRead, limit: int, *, one_at_least: bool) -> None:
        share, log = read.share, read.log
        if share.next_offset < log.start_offset:
            share.move_start(log.start_offset)
        read.offset = share.next_offset
        end = log.last_stable_offset if self._committed else log.high_watermark
        read.batches = log.read(read.offset, end, limit, one_at_least=one_at_least)

    def _acquire(self, read: ShareRead, records: int) -> list[Acquired]:
        body = self._request.body
        strict = body.get("share_acquire_mode", 0) == _STRICT
        got = read.share.acquire(
            body["member_id"], read.batches, read.offset, records, body["batch_size"], strict=strict
        )
        if self._committed and got:
            for batch in aborted(read.log, read.batches):
                read.share.archive(batch.base_offset, batch.last_offset)
                got = [rest for one in got for rest in _without(one, batch)]
        return got

    def _refusal(self, part: Part, refused: Refused) -> dict[str, Any]:
        result: dict[str, Any] = {
            "partition_index": part[1],
            "error_code": refused.error,
            "error_message": refused.message,
            "records": b"",
        }
        if refused.error is Error.NOT_LEADER_OR_FOLLOWER and (topic := self._topics.with_id(part[0])) is not None:
            result["current_leader"] = self._leaders.current(self._topics.partition(topic.name, part[1]))
        return result


def aborted(log: Log, batches: Sequence[StoredBatch]) -> Iterator[StoredBatch]:
    """Return the batches that are part of aborted transactions."""
    if not batches:
        return
    headers = [(batch, batch.header) for batch in batches]
    for transaction in log.aborted(batches[0].base_offset, batches[-1].last_offset + 1):
        for batch, header in headers:
            if (
                header.transactional
                and not header.control
                and header.producer_id == transaction.producer_id
                and transaction.first_offset <= batch.base_offset <= transaction.last_offset
            ):
                yield batch


def _without(acquired: Acquired, batch: StoredBatch) -> Iterator[Acquired]:
    """Return the acquired records without those of a batch."""
    if acquired.first <= min(acquired.last, batch.base_offset - 1):
        yield acquired._replace(last=min(acquired.last, batch.base_offset - 1))
    if acquired.last >= max(acquired.first, batch.last_offset + 1):
        yield acquired._replace(first=max(acquired.first, batch.last_offset + 1))


def _result(read: ShareRead, acquired: Sequence[Acquired]) -> dict[str, Any]:
    """Return the result with the batches that contain acquired records."""
    sent = [
        batch.data
        for batch in read.batches
        if acquired and batch.last_offset >= acquired[0].first and batch.base_offset <= acquired[-1].last
    ]
    return {
        "partition_index": read.part[1],
        "records": b"".join(sent),
        "acquired_records": [
            {"first_offset": run.first, "last_offset": run.last, "delivery_count": run.deliveries} for run in acquired
        ],
    }


def by_topic(results: Mapping[Part, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return results of partitions, grouped by topic."""
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for (topic_id, _), result in results.items():
        topics.setdefault(topic_id, []).append(result)
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]
