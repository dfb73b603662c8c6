"""Acquires records of a log for a member, and counts deliveries.

Source: Kafka's SharePartition.acquire. Records that were delivered often are acquired in smaller portions, and alone
for the last delivery.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kproxy.broker.log.batch import StoredBatch
from kproxy.broker.shares.inflight import AcquiredBatch, RecordState, Run
from kproxy.broker.shares.records import AcquiredRecords

_MIN_THROTTLED: Final = 2  # deliveries


class Acquired(NamedTuple):
    """Acquired records, and their delivery count including this delivery."""

    first: int
    last: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class AcquireRequest:
    """A member's request for records, and its limits.

    Attributes:
        member: The member id.
        records: Maximum number, except that batches of the log are not split.
        batch_size: Approximate number of records to acknowledge together.
        strict: Never exceed `records` (KIP-1206), so that batches are split.
        until: End of the acquisition lock, in ms since the epoch.
        max_locks: Limit of records in flight.
        max_deliveries: Delivery limit of a record.
    """

    member: str
    records: int
    batch_size: int
    strict: bool
    until: int
    max_locks: int
    max_deliveries: int


class Acquiring:
    """One acquisition.

    Args:
        records: The records in flight.
        batches: Batches read from the log, from `offset` on.
        offset: `AcquiredRecords.next_offset`.
        request: The member's request.
    """

    def __init__(
        self, records: AcquiredRecords, batches: Sequence[StoredBatch], offset: int, request: AcquireRequest
    ) -> None:
        self._records = records
        self._batches = batches
        self._request = request
        self._last = batches[-1].last_offset if batches else -1
        self._remaining = min(request.records, request.most_locks - records.count)
        if self._remaining <= 0 < request.records and offset <= records.end:  # no new records, but released ones
            self._remaining = min(request.records, records.end - offset + 1)
            self._last = min(self._last, records.end)
        self._acquired: list[Acquired] = []

    def acquire_all(self) -> list[Acquired]:
        """Acquire everything possible."""
        if self._remaining <= 0 or not self._batches or self._batches[-1].last_offset < self._records.start:
            return []
        first = self._batches[0].base_offset
        floor = self._records.floor(first)
        begin = max(first, self._records.start) if floor is None else first
        if floor is not None and floor.last >= first:
            begin = floor.first
        known = self._records.between(min(first, begin), self._last)
        for batch in known:
            if self._remaining <= 0 or not self._acquire_available(batch, first):
                return self._acquired
        behind = known[-1].last + 1 if known else begin
        if self._remaining > 0 and behind <= self._last:
            self._acquire_new(behind)
        return self._acquired

    def _acquire_available(self, batch: AcquiredBatch, first: int) -> bool:
        """Acquire the available records of a batch; return whether the member may have more."""
        throttled = self._is_throttled(batch, first)
        if throttled and self._acquired:
            return False
        whole = first <= batch.first and batch.last <= self._last
        too_many = self._request.strict and len(batch) > self._remaining
        if not batch.split:
            if batch.runs[0].state is not RecordState.AVAILABLE:
                return True
            if whole and not too_many and not throttled:
                self._assign(batch.runs)
                return True
            batch.split = True
        taken = self._acquire_some(batch, first)
        return not (throttled and taken)

    def _acquire_some(self, batch: AcquiredBatch, first: int) -> bool:
        """Acquire some records of a batch; return whether there were any."""
        taken: list[Run] = []
        count, portion, request = 0, 0, self._request
        for run in batch.within(first, self._last):
            if run.state is not RecordState.AVAILABLE:
                continue
            last_time = request.most_deliveries > _MIN_THROTTLED and run.deliveries == request.most_deliveries - 1
            if last_time and taken:
                break
            beyond = run.deliveries - self._throttled_from
            if beyond >= 0 and not portion:
                portion = max(1, len(batch) >> (beyond + 1))
            most = len(run)
            if last_time:
                most = 1
            if request.strict:
                most = min(most, self._remaining - count)
            if portion > count:
                most = min(most, portion - count)
            [run_given] = batch.within(run.first, run.first + most - 1)
            taken.append(run_given)
            count += most
            if last_time or (request.strict and count == self._remaining) or count == portion:
                break
        self._assign(taken)
        return bool(taken)

    def _acquire_new(self, first: int) -> None:
        """Acquire records that were never delivered."""
        request, last = self._request, self._last
        if self._remaining < last - first + 1:
            last = self._end_of_batch(first + self._remaining - 1)
        if request.strict or last - first + 1 <= request.batch_size:
            self._begin(first, last)
        else:
            for batch in self._batches:
                if batch.base_offset > last:
                    break
                if batch.base_offset - first >= max(request.batch_size, 1):
                    self._begin(first, batch.base_offset - 1)
                    first = batch.base_offset
            self._begin(first, last)

    def _begin(self, first: int, last: int) -> None:
        batch = AcquiredBatch([Run(first, last, RecordState.AVAILABLE, 0)])
        self._records.add(batch)
        if self._request.strict and len(batch) > self._remaining:
            batch.split = True
            self._assign(batch.within(first, first + self._remaining - 1))
        else:
            self._assign(batch.runs)

    def _assign(self, runs: Iterable[Run]) -> None:
        """Assign runs to the member; consecutive runs with the same delivery count are merged."""
        joined: list[Acquired] = []
        for run in runs:
            run.acquire(self._request.member, self._request.until)
            self._remaining -= len(run)
            if joined and joined[-1].last + 1 == run.first and joined[-1].deliveries == run.deliveries:
                joined[-1] = joined[-1]._replace(last=run.last)
            else:
                joined.append(Acquired(run.first, run.last, run.deliveries))
        self._acquired += joined

    def _is_throttled(self, batch: AcquiredBatch, first: int) -> bool:
        deliveries = (
            run.deliveries
            for run in batch.runs
            if run.state is RecordState.AVAILABLE
            and (not batch.split or (run.last >= first and run.first <= self._last))
        )
        return max(deliveries, default=0) >= self._throttled_from

    @property
    def _throttled_from(self) -> int:
        return max(_MIN_THROTTLED, -(-self._request.most_deliveries // 2))

    def _end_of_batch(self, offset: int) -> int:
        """Return the end of the log batch that contains an offset."""
        return next(
            (batch.last_offset for batch in self._batches if batch.base_offset <= offset <= batch.last_offset), offset
        )
