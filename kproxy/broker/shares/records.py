"""Records in flight: a share partition's records from its start offset to the last acquired one.

Source: Kafka's SharePartition.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from kproxy.broker.shares.inflight import AcquiredBatch, RecordState, Run


class AcquiredRecords:
    """Records in flight, by offset.

    Attributes:
        start: Every record before it is complete.
        end: The last offset that has ever been acquired; the start if none has.
    """

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self._batches: list[AcquiredBatch] = []

    def __iter__(self) -> Iterator[AcquiredBatch]:
        return iter(self._batches)

    @property
    def is_empty(self) -> bool:
        """Whether there are no records at or after the start."""
        return not self._batches or self.start > self._batches[-1].last

    @property
    def next_offset(self) -> int:
        """The next offset with a record to deliver, now or later."""
        if self.is_empty:
            return self.end
        available = (run.first for run in self.runs() if run.state is RecordState.AVAILABLE)
        return next(available, self.end + 1)

    @property
    def count(self) -> int:
        """Number of records in flight."""
        return self.end - self.start + 1 if self._batches else 0

    @property
    def complete(self) -> int:
        """Number of complete records in flight. They are behind an incomplete one, so the start cannot pass them."""
        return sum(
            run.last - max(run.first, self.start) + 1
            for run in self.runs()
            if run.state.is_terminal and run.last >= self.start
        )

    def runs(self) -> Iterator[Run]:
        """Yield the runs of all batches."""
        return (run for batch in self._batches for run in batch.runs)

    def floor(self, offset: int) -> AcquiredBatch | None:
        """Return the last batch that begins at or before an offset."""
        position = bisect.bisect_right(self._batches, offset, key=lambda batch: batch.first)
        return self._batches[position - 1] if position else None

    def between(self, first: int, last: int) -> list[AcquiredBatch]:
        """Return the batches that begin between two offsets."""
        start = bisect.bisect_left(self._batches, first, key=lambda batch: batch.first)
        return self._batches[start : bisect.bisect_right(self._batches, last, key=lambda batch: batch.first)]

    def add(self, batch: AcquiredBatch) -> None:
        """Add a batch that overlaps no other."""
        bisect.insort(self._batches, batch, key=lambda batch: batch.first)
        if self._batches[0] is batch:
            self.start = batch.first
        self.end = max(self.end, batch.last)

    def archive(self, first: int, last: int, state: RecordState) -> None:
        """Archive the records between two offsets that have this state."""
        for batch in self._batches:
            if batch.first > last:
                break
            if batch.last < first or (not batch.split and batch.runs[0].state is not state):
                continue
            batch.split |= batch.first < first or batch.last > last
            for run in batch.split_runs_between(first, last):
                if run.state is state:
                    run.state, run.member = RecordState.ARCHIVED, ""

    def move_start(self, offset: int) -> None:
        """Move the start to the log's new start offset."""
        if offset <= self.start:
            return
        self.archive(self.start, offset - 1, RecordState.AVAILABLE)
        self.start = offset
        self.end = max(self.end, offset) if self._batches else offset

    def advance(self) -> None:
        """Advance the start past complete records, and remove complete batches."""
        floor = self.floor(self.start)
        if floor is None or not (floor.run_at(self.start) or floor.runs[-1]).state.is_terminal:
            return
        last_complete = self._last_complete()
        if last_complete is None:
            return
        if last_complete == self._batches[-1].last:
            self.start = self.end = last_complete + 1
            self._batches.clear()
            return
        first_incomplete = next(position for position, batch in enumerate(self._batches) if batch.last > last_complete)
        self.start = max(self.start, last_complete + 1, self._batches[first_incomplete].first)
        del self._batches[:first_incomplete]

    def _last_complete(self) -> int | None:
        """Return the offset before the first incomplete record; None if the first record is incomplete."""
        last_complete = None
        for run in self.runs():
            if not run.state.is_terminal:
                break
            last_complete = run.last
        return last_complete
