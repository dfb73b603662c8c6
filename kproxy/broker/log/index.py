"""Index: finds batches by offset and by time."""

from __future__ import annotations

import bisect

from kproxy.broker.log.batch import StoredBatch


class BatchIndex:
    """The batches of a log in order."""

    def __init__(self) -> None:
        self._batches: list[StoredBatch] = []
        self._last_offsets: list[int] = []
        self._latest: list[int] = []  # the greatest timestamp of each batch and those before it

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, position: int) -> StoredBatch:
        return self._batches[position]

    def append(self, batch: StoredBatch) -> None:
        """Add a batch behind the last."""
        latest = self._latest[-1] if self._latest else -1
        self._batches.append(batch)
        self._last_offsets.append(batch.last_offset)
        self._latest.append(max(latest, batch.max_timestamp))

    def at(self, offset: int) -> int:
        """Position of the first batch that ends at or behind an offset."""
        return bisect.bisect_left(self._last_offsets, offset)

    def since(self, timestamp: int) -> int:
        """Position of the first batch with a record of that time or later; the number of batches if there is none."""
        position = bisect.bisect_left(self._latest, timestamp)
        while position < len(self._batches) and self._batches[position].max_timestamp < timestamp:
            position += 1  # the greatest timestamp before it was that of a batch which is gone
        return position

    @property
    def greatest_timestamp(self) -> int:
        """Of all batches."""
        return max((batch.max_timestamp for batch in self._batches), default=-1)

    def delete_first(self, count: int) -> list[StoredBatch]:
        """Forget so many of the oldest; these."""
        gone = self._batches[:count]
        del self._batches[:count], self._last_offsets[:count], self._latest[:count]
        return gone
