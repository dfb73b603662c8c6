"""RepeatedBatches: partitions whose consumer gets the same batch at the same offset again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dissectors import records
from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.messages.topic_records import PartitionRecords, topic_records
from dissectors.records.allowance import Allowance
from dissectors.records.control import are_all_control_batches
from dissectors.records.record_checks import BatchSpan
from dissectors.trackers.fetch_facts import is_follower
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import TopicPartition
from dissectors.trackers.state import ConnectionState

#: A partition is stuck after this many responses over this time (ns).
REPEATS = 5
MIN_DURATION = 1_000_000_000

#: The time (ns) within which a stuck consumer fetches again. A consumer that comes back later may have its reasons.
_MAX_PAUSE = 10_000_000_000

_MAX_PARTITIONS = 1_000

#: The most work to spend on reading the records of a stuck partition, which happens once.
_STEPS = 50_000

_READ_COMMITTED = 1


class BatchContents(NamedTuple):
    """What a response contains for a stuck consumer.

    `first` and `last` are the first and last offsets of its batches, as they were written. `newest` is the offset of
    the last record for the application, and `kept` is the offset of the last record of any kind; -1 if there is none.
    """

    first: int
    last: int
    newest: int
    kept: int


@dataclass(slots=True, eq=False)
class StuckPartition:
    """A partition in the latest response: how often and since when its batch came at this offset, and where it is.

    `contents` is None until the partition is stuck, and if its records cannot be read.
    """

    topic_partition: TopicPartition
    offset: int
    batch: BatchSpan
    since: int
    last: int
    times: int = 2
    where: tuple[str | int, ...] = ()
    examined: bool = False
    contents: BatchContents | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether the consumer has got the batch often enough to be stuck."""
        return self.times >= REPEATS and self.last - self.since >= MIN_DURATION


class RepeatedBatches:
    """The partitions of a connection that got a batch again, from Fetch responses flagged `FrameFlags.REPEATED`.

    Rules that call `stuck_partitions` need `Fetches`, which sets that flag. Batches of transaction markers are omitted.
    """

    def __init__(self) -> None:
        self._stuck: list[StuckPartition] = []
        self._counted_offset = -1
        self._partitions: BoundedDict[TopicPartition, StuckPartition] = BoundedDict(_MAX_PARTITIONS)

    def stuck_partitions(self, event: ResponseReceived, connection: ConnectionState) -> list[StuckPartition]:
        """Return the stuck partitions in a response, which is counted on the first call."""
        if event.offset != self._counted_offset:
            self._counted_offset, self._stuck = event.offset, []
            self._observe(event, connection)
        return self._stuck

    def _observe(self, event: ResponseReceived, connection: ConnectionState) -> None:
        message, request_body = event.message, event.request_body
        if message is None or request_body is None or event.request is None or is_follower(request_body):
            return
        offsets = connection.state(Fetches).sessions.offsets(event.request)
        for i, topic in enumerate(topic_records(message)):
            for j, partition in enumerate(topic.partitions):
                topic_partition = topic.key, partition.partition or 0
                if partition.batch is None or topic_partition not in offsets or partition.row.get("error_code"):
                    continue  # a consumer does not use the records of a partition with an error
                stuck_partition = self._count_batch(topic_partition, offsets[topic_partition], partition.batch, event)
                if stuck_partition.is_stuck:
                    stuck_partition.where = ("responses", i, "partitions", j)
                    if not stuck_partition.examined:
                        stuck_partition.examined, stuck_partition.contents = (
                            True,
                            _read_contents(partition, request_body),
                        )
                    if stuck_partition.contents is not None:
                        self._stuck.append(stuck_partition)

    def _count_batch(
        self, topic_partition: TopicPartition, offset: int, batch: BatchSpan, event: ResponseReceived
    ) -> StuckPartition:
        stuck_partition = self._partitions.get(topic_partition)
        key = offset, batch.base_offset, batch.crc
        if (
            stuck_partition is None
            or (stuck_partition.offset, stuck_partition.batch.base_offset, stuck_partition.batch.crc) != key
            or event.at - stuck_partition.last > _MAX_PAUSE
        ):
            stuck_partition = self._partitions[topic_partition] = StuckPartition(
                topic_partition, offset, batch, event.at, event.at
            )
        else:
            stuck_partition.times += 1
            stuck_partition.last = event.at
        return stuck_partition


def _read_contents(part: PartitionRecords, request_body: Mapping[str, Any]) -> BatchContents | None:
    """Return what record data contains for a consumer; None if it cannot be read, or has only transaction markers."""
    if part.data is None or are_all_control_batches(part.data):
        return None
    batches = [batch for batch in records.decode(part.data, allowance=Allowance(_STEPS)) if "truncated" not in batch]
    if not batches or any("error" in batch or batch["magic"] != 2 or "records_left_out" in batch for batch in batches):
        return None
    aborted = {transaction["producer_id"] for transaction in part.row.get("aborted_transactions") or ()}
    if request_body.get("isolation_level") != _READ_COMMITTED:
        aborted = set()
    offsets = [record["offset"] for batch in batches for record in batch["records"]]
    application_offsets = [
        record["offset"]
        for batch in batches
        if not batch["is_control"] and not (batch["is_transactional"] and batch["producer_id"] in aborted)
        for record in batch["records"]
    ]
    return BatchContents(
        batches[0]["base_offset"],
        batches[-1]["last_offset"],
        max(application_offsets, default=-1),
        max(offsets, default=-1),
    )
