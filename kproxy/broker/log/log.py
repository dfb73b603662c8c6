"""Log: the batches of one partition."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kproxy.broker.changes import Changed

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it is stored: its bytes, and what of its header is asked for again and again."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    data: bytes


class Log:
    """The batches of a partition, by offset. `changed` is told when the high watermark has moved.

    There is one replica of each log for all brokers, so that what is appended is committed at once:
    the high watermark is the log's end.
    """

    def __init__(self, cluster: Cluster, topic: str, topic_id: str, index: int) -> None:
        self.changed = Changed()
        self.start_offset = 0
        self.end_offset = 0
        self._cluster = cluster
        self._batches: list[Batch] = []
        self._ends: list[int] = []  # last offsets, for bisect

    @property
    def high_watermark(self) -> int:
        """One past the last offset that consumers may see."""
        return self.end_offset

    def append(self, batch: Batch) -> None:
        """Add a batch whose offsets follow the last ones."""
        self._batches.append(batch)
        self._ends.append(batch.last_offset)
        self.end_offset = batch.last_offset + 1
        self.changed.tell()

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset` on, up to `max_bytes` but one at least."""
        first = bisect.bisect_left(self._ends, offset)
        found: list[bytes] = []
        size = 0
        for batch in self._batches[first:]:
            if found and size + len(batch.data) > max_bytes:
                break
            found.append(batch.data)
            size += len(batch.data)
        return b"".join(found)

    def close(self) -> None:
        """The partition is gone: wake who waits for it."""
        self.changed.tell()
