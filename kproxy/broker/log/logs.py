"""All logs of a cluster: memory limit and retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kproxy.broker.clock import Timer
from kproxy.broker.configs import Configs
from kproxy.broker.log.settings import settings
from kproxy.broker.storage.private import restrict
from kproxy.broker.storage.segments import Segments

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.log.log import Log

#: `BrokerOptions.retention_bytes` divided by this is deleted at once, so that not every new batch deletes old ones.
_DELETION_DIVISOR: Final = 32

_START_OFFSETS_TABLE: Final = "log_starts"
_DIRECTORY: Final = "logs"


class Logs:
    """All logs of a cluster.

    All batches together use at most `BrokerOptions.retention_bytes` of memory; beyond that, the oldest batches of the
    largest log are deleted. Every ``log.retention.check.interval.ms``, the topics' ``retention.ms`` and
    ``retention.bytes`` are applied per batch; Kafka deletes later, because it only deletes whole segments. Batches
    without timestamps are deleted by size only. Nothing is compacted.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._logs: set[Log] = set()
        self._memory = 0
        self._next_check: Timer | None = None
        self._starts = {key: int(value["offset"]) for key, value in cluster.journal.entries(_START_OFFSETS_TABLE)}
        if cluster.options.data is not None:
            restrict(cluster.options.data / _DIRECTORY)

    def add(self, log: Log) -> None:
        """Register a log."""
        self._logs.add(log)

    def discard(self, log: Log) -> None:
        """Unregister a log that could not be loaded."""
        self._logs.discard(log)
        self._memory -= log.memory

    def remove(self, log: Log) -> None:
        """Unregister a deleted log, and delete its stored start offset."""
        self.discard(log)
        self._starts.pop(log.key, None)
        self._cluster.journal.put(_START_OFFSETS_TABLE, log.key, None)

    def segments(self, topic: str, index: int, topic_id: str) -> Segments | None:
        """Return a log's files on disk; None if logs are kept in memory."""
        data_dir = self._cluster.options.data
        return None if data_dir is None else Segments(data_dir / _DIRECTORY / f"{topic}-{index}", topic_id)

    def start_offset(self, key: str) -> int:
        """Return a log's stored start offset, by default 0."""
        return self._starts.get(key, 0)

    def store_start(self, log: Log) -> None:
        """Store a log's start offset."""
        self._starts[log.key] = log.start_offset
        self._cluster.journal.put(_START_OFFSETS_TABLE, log.key, {"offset": log.start_offset})

    def add_memory(self, memory: int) -> None:
        """Account for a change in a log's memory, in bytes."""
        self._memory += memory
        limit = self._cluster.options.retention_bytes
        if memory < 0:
            return
        while self._memory > limit:
            max(self._logs, key=lambda log: log.memory).delete_oldest(limit // _DELETION_DIVISOR)

    async def wait_until_synced(self) -> None:
        """Wait until all data appended to any log is as durable as configured.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR.
        """
        for log in list(self._logs):
            await log.wait_until_synced()

    def start(self) -> None:
        """Start applying retention."""
        self.check()
        interval_ms = int(self._cluster.part(Configs).broker("log.retention.check.interval.ms"))
        self._next_check = self._cluster.clock.schedule(interval_ms, self.start)

    def check(self) -> None:
        """Apply the topics' retention, and remove producers that have not written for a day."""
        now_ms = self._cluster.clock.now()
        producer_cutoff_ms = now_ms - int(self._cluster.part(Configs).broker("producer.id.expiration.ms"))
        for log in list(self._logs):
            log_settings = settings(self._cluster, log.topic)
            if log_settings.deleted:
                log.retain(
                    log_settings.retention_bytes,
                    now_ms - log_settings.retention_ms if log_settings.retention_ms >= 0 else None,
                )
            log.producers.expire(producer_cutoff_ms)

    def close(self) -> None:
        """Close all files, and stop applying retention."""
        if self._next_check is not None:
            self._next_check.cancel()
        for log in self._logs:
            log.close()
