"""Logs: all logs of a cluster together: how much they hold, and what goes when that is too much or too old."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kproxy.broker.clock import Timer
from kproxy.broker.configs import Configs
from kproxy.broker.log.settings import settings
from kproxy.broker.storage.segments import Segments

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.log.log import Log

#: Of `Options.retention_bytes`: goes at once when it is passed, so that room is not made for every batch.
_SHARE: Final = 32

_STARTS: Final = "log_starts"


class Logs:
    """Every log of a cluster.

    The batches of all of them take at most `Options.retention_bytes` of memory: then the oldest of the largest log go.
    Every ``log.retention.check.interval.ms`` go those that ``retention.ms`` and ``retention.bytes`` of topics say,
    batch by batch; Kafka drops whole segments, and so later. Batches without timestamps only go by size. Nothing is
    compacted.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._logs: set[Log] = set()
        self._held = 0
        self._next_check: Timer | None = None
        self._starts = {key: int(value["offset"]) for key, value in cluster.journal.entries(_STARTS)}

    def add(self, log: Log) -> None:
        """A log is there."""
        self._logs.add(log)

    def remove(self, log: Log) -> None:
        """A log is gone, and what it holds."""
        self._logs.discard(log)
        self._held -= log.held
        self._starts.pop(log.key, None)
        self._cluster.journal.put(_STARTS, log.key, None)

    def segments(self, topic: str, index: int, topic_id: str) -> Segments | None:
        """Where a log is on the disk; None in memory."""
        data = self._cluster.options.data
        return None if data is None else Segments(data / "logs" / f"{topic}-{index}", topic_id)

    def start_offset(self, key: str) -> int:
        """Where a log began when that was last kept."""
        return self._starts.get(key, 0)

    def keep_start(self, log: Log) -> None:
        """A log begins elsewhere."""
        self._starts[log.key] = log.start_offset
        self._cluster.journal.put(_STARTS, log.key, {"offset": log.start_offset})

    def changed_by(self, held: int) -> None:
        """A log takes so many bytes of memory more."""
        self._held += held
        limit = self._cluster.options.retention_bytes
        if held < 0:
            return
        while self._held > limit:
            max(self._logs, key=lambda log: log.held).delete_oldest(limit // _SHARE)

    async def synced(self) -> None:
        """Return when what was appended to any log so far is as safe as was asked for.

        Raises:
            Refused: KAFKA_STORAGE_ERROR.
        """
        for log in list(self._logs):
            await log.synced()

    def start(self) -> None:
        """Look after what is too old from now on."""
        self.check()
        interval = int(self._cluster.part(Configs).broker("log.retention.check.interval.ms"))
        self._next_check = self._cluster.clock.later(interval, self.start)

    def check(self) -> None:
        """Have go what the topics' retention says, and producers that wrote nothing for a day."""
        now = self._cluster.clock.now()
        forgotten_before = now - int(self._cluster.part(Configs).broker("producer.id.expiration.ms"))
        for log in list(self._logs):
            of = settings(self._cluster, log.topic)
            if of.deleted:
                log.retain(of.retention_bytes, now - of.retention_ms if of.retention_ms >= 0 else None)
            log.producers.expire(forgotten_before)

    def close(self) -> None:
        """Give their files back, and look after nothing any more."""
        if self._next_check is not None:
            self._next_check.cancel()
        for log in self._logs:
            log.stop()
