"""Acquires records of a log for a member, and counts deliveries.

Source: Kafka's SharePartition.acquire. Records that have been delivered often are acquired in smaller portions, and one
at a time for the last delivery.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kproxy.broker.log.batch import StoredBatch
from kproxy.broker.shares.inflight import AcquiredBatch, RecordState, Run
from kproxy.broker.shares.records import AcquiredRecords

_MIN_THROTTLED_DELIVERIES: Final = 2  # a record with this many deliveries may be throttled


class AcquiredRange(NamedTuple):
    """Acquired records, and their delivery count including this delivery."""

    first: int
    last: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class AcquireRequest:
    """A member's request for records, and its limits.

    Attributes:
        member: The member id.
        records: Maximum number of records. It can be exceeded: batches of the log are not split.
        batch_size: Approximate number of records to acknowledge together.
        strict: Whether to never exceed `records` (KIP-1206), by splitting batches.
        until: End of the acquisition lock, in ms since the epoch.
        max_locks: Limit on records in flight.
        max_deliveries: Delivery limit of a record.
    """

    member: str
    records: int
    batch_size: int
    strict: bool
    until: int
    max_locks: int
    max_deliveries: int


class RecordAcquirer:
    """One acquisition.

    Args:
        records: The records in flight.
        batches: Batches read from the log, from `offset` on.
        offset: The value of `AcquiredRecords.next_offset`.
        request: The member's request.
    """

    def __init__(
        self, records: AcquiredRecords, batches: Sequence[StoredBatch], offset: int, request: AcquireRequest
    ) -> None:
        self._records = records
        self._batches = batches
        self._request = request
        self._last = batches[-1].last_offset if batches else -1
        self._remaining = min(request.records, request.max_locks - records.count)
        if self._remaining <= 0 < request.records and offset <= records.end:  # only released records, no new ones
            self._remaining = min(request.records, records.end - offset + 1)
            self._last = min(self._last, records.end)
        self._acquired: list[AcquiredRange] = []

    def acquire_all(self) -> list[AcquiredRange]:
        """Acquire as many records as possible; return them."""
        if self._remaining <= 0 or not self._batches or self._batches[-1].last_offset < self._records.start:
            return []
        first = self._batches[0].base_offset
        floor = self._records.floor(first)
        start = max(first, self._records.start) if floor is None else first
        if floor is not None and floor.last >= first:
            start = floor.first
        known_batches = self._records.between(min(first, start), self._last)
        for batch in known_batches:
            if self._remaining <= 0 or not self._acquire_available(batch, first):
                return self._acquired
        new_offset = known_batches[-1].last + 1 if known_batches else start
        if self._remaining > 0 and new_offset <= self._last:
            self._acquire_new(new_offset)
        return self._acquired

    def _acquire_available(self, batch: AcquiredBatch, first: int) -> bool:
        """Acquire the available records of a batch; return whether the member may have more."""
        is_throttled = self._is_throttled(batch, first)
        if is_throttled and self._acquired:
            return False
        is_whole = first <= batch.first and batch.last <= self._last
        exceeds_limit = self._request.strict and len(batch) > self._remaining
        if not batch.split:
            if batch.runs[0].state is not RecordState.AVAILABLE:
                return True
            if is_whole and not exceeds_limit and not is_throttled:
                self._assign(batch.runs)
                return True
            batch.split = True
        has_acquired = self._acquire_some(batch, first)
        return not (is_throttled and has_acquired)

    def _acquire_some(self, batch: AcquiredBatch, first: int) -> bool:
        """Acquire some records of a batch; return whether any were available."""
        selected: list[Run] = []
        count, portion, request = 0, 0, self._request
        for run in batch.split_runs_between(first, self._last):
            if run.state is not RecordState.AVAILABLE:
                continue
            is_last_delivery = (
                request.max_deliveries > _MIN_THROTTLED_DELIVERIES and run.deliveries == request.max_deliveries - 1
            )
            if is_last_delivery and selected:
                break
            excess_deliveries = run.deliveries - self._throttle_threshold
            if excess_deliveries >= 0 and not portion:
                portion = max(1, len(batch) >> (excess_deliveries + 1))
            limit = len(run)
            if is_last_delivery:
                limit = 1
            if request.strict:
                limit = min(limit, self._remaining - count)
            if portion > count:
                limit = min(limit, portion - count)
            [selected_run] = batch.split_runs_between(run.first, run.first + limit - 1)
            selected.append(selected_run)
            count += limit
            if is_last_delivery or (request.strict and count == self._remaining) or count == portion:
                break
        self._assign(selected)
        return bool(selected)

    def _acquire_new(self, first: int) -> None:
        """Acquire records that have never been delivered."""
        request, last = self._request, self._last
        if self._remaining < last - first + 1:
            last = self._end_of_batch(first + self._remaining - 1)
        if request.strict or last - first + 1 <= request.batch_size:
            self._acquire_new_batch(first, last)
        else:
            for batch in self._batches:
                if batch.base_offset > last:
                    break
                if batch.base_offset - first >= max(request.batch_size, 1):
                    self._acquire_new_batch(first, batch.base_offset - 1)
                    first = batch.base_offset
            self._acquire_new_batch(first, last)

    def _acquire_new_batch(self, first: int, last: int) -> None:
        batch = AcquiredBatch([Run(first, last, RecordState.AVAILABLE, 0)])
        self._records.add(batch)
        if self._request.strict and len(batch) > self._remaining:
            batch.split = True
            self._assign(batch.split_runs_between(first, first + self._remaining - 1))
        else:
            self._assign(batch.runs)

    def _assign(self, runs: Iterable[Run]) -> None:
        """Assign runs to the member; merge the ranges of consecutive runs with the same delivery count."""
        ranges: list[AcquiredRange] = []
        for run in runs:
            run.acquire(self._request.member, self._request.until)
            self._remaining -= len(run)
            if ranges and ranges[-1].last + 1 == run.first and ranges[-1].deliveries == run.deliveries:
                ranges[-1] = ranges[-1]._replace(last=run.last)
            else:
                ranges.append(AcquiredRange(run.first, run.last, run.deliveries))
        self._acquired += ranges

    def _is_throttled(self, batch: AcquiredBatch, first: int) -> bool:
        deliveries = (
            run.deliveries
            for run in batch.runs
            if run.state is RecordState.AVAILABLE
            and (not batch.split or (run.last >= first and run.first <= self._last))
        )
        return max(deliveries, default=0) >= self._throttle_threshold

    @property
    def _throttle_threshold(self) -> int:
        return max(_MIN_THROTTLED_DELIVERIES, -(-self._request.max_deliveries // 2))

    def _end_of_batch(self, offset: int) -> int:
        """Return the end of the log batch that contains an offset."""
        return next(
            (batch.last_offset for batch in self._batches if batch.base_offset <= offset <= batch.last_offset), offset
        )
