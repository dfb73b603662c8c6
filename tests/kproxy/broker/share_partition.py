"""A partition that a share group reads, without a broker."""

from __future__ import annotations

from dissectors.records import encode
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log import Log
from kproxy.broker.log.appending import append
from kproxy.broker.log.settings import settings
from kproxy.broker.shares.acknowledgement import Acknowledgement
from kproxy.broker.shares.partition import SharePartition
from kproxy.broker.shares.shares import SharePartitions
from kproxy.broker.shares.states import ShareStates
from kproxy.broker.topics import Partition, Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.journals import InMemoryJournal, make_cluster


class SharePartitionHarness:
    """The group ``g`` and the partition ``t-0``. Records are acquired for 30 s, unless configs say otherwise."""

    def __init__(self, **configs: str) -> None:
        self.clock = FakeClock()
        self.journal = InMemoryJournal()
        self._configs = configs
        self.restart()
        topic = self._partition.topic_id
        self.states.initialize("g", (topic, 0), 1, 0)

    def restart(self) -> None:
        """Restore the stored state in a new cluster; the log is empty."""
        cluster = self.cluster = make_cluster(self.clock, self.journal, **self._configs)
        self.states = cluster.part(ShareStates)

    @property
    def _partition(self) -> Partition:
        partition = self.cluster.part(Topics).partition("t", 0)
        assert partition is not None
        return partition

    @property
    def log(self) -> Log:
        """The log of the partition."""
        return self._partition.log

    @property
    def share_partition(self) -> SharePartition:
        """The share partition."""
        return self.cluster.part(SharePartitions).open("g", self._partition)

    @property
    def offsets(self) -> tuple[int, int]:
        """The stored start offset, and the number of completed records from there on."""
        state = self.states.get("g", (self._partition.topic_id, 0))
        assert state is not None
        return state.start_offset, state.complete

    def produce(self, *counts: int) -> None:
        """Append one batch for each count, with that many records."""
        for count in counts:
            records = [{"value": b"v", "timestamp": self.clock.now()} for _ in range(count)]
            data = memoryview(encode([{"records": records}]))
            append(self.log, data, settings(self.cluster, "t"), self.clock.now())

    def acquire(
        self, member: str = "a", records: int = 500, batch_size: int = 500, *, strict: bool = False
    ) -> list[tuple[int, int, int]]:
        """Acquire records; return the first offset, last offset and delivery count of each run."""
        share_partition, log = self.share_partition, self.log
        if not share_partition.has_room:
            return []
        if share_partition.next_offset < log.start_offset:
            share_partition.move_start(log.start_offset)
        offset = share_partition.next_offset
        batches = log.read(offset, log.end_offset, 1 << 20, at_least_one=True)
        return [
            tuple(run) for run in share_partition.acquire(member, batches, offset, records, batch_size, strict=strict)
        ]

    def acknowledge(self, first: int, last: int, *types: int, member: str = "a") -> tuple[Error, str | None]:
        """Acknowledge records; return the error and its message."""
        try:
            self.share_partition.acknowledge(member, [Acknowledgement(first, last, types)])
        except ApiError as refused:
            return refused.error, refused.message
        return Error.NONE, None
