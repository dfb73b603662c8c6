"""Finds batches by offset and by time."""

from __future__ import annotations

import bisect

from kproxy.broker.log.batch import StoredBatch


class BatchIndex:
    """The batches of a log, in order."""

    def __init__(self) -> None:
        self._batches: list[StoredBatch] = []
        self._last_offsets: list[int] = []
        self._highest_timestamps: list[int] = []  # the highest timestamp up to and including each batch

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, position: int) -> StoredBatch:
        return self._batches[position]

    def append(self, batch: StoredBatch) -> None:
        """Append a batch."""
        highest_timestamp = self._highest_timestamps[-1] if self._highest_timestamps else -1
        self._batches.append(batch)
        self._last_offsets.append(batch.last_offset)
        self._highest_timestamps.append(max(highest_timestamp, batch.max_timestamp))

    def position_of_offset(self, offset: int) -> int:
        """Return the position of the first batch that ends at or after an offset."""
        return bisect.bisect_left(self._last_offsets, offset)

    def position_of_timestamp(self, timestamp: int) -> int:
        """Return the position of the first batch with a record from that time or later; else the number of batches."""
        position = bisect.bisect_left(self._highest_timestamps, timestamp)
        while position < len(self._batches) and self._batches[position].max_timestamp < timestamp:
            position += 1  # the highest timestamp was in a deleted batch
        return position

    @property
    def greatest_timestamp(self) -> int:
        """The highest timestamp; -1 if there are no batches."""
        return max((batch.max_timestamp for batch in self._batches), default=-1)

    def delete_first(self, count: int) -> list[StoredBatch]:
        """Remove and return the oldest batches."""
        removed = self._batches[:count]
        del self._batches[:count], self._last_offsets[:count], self._highest_timestamps[:count]
        return removed
