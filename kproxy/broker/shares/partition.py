"""SharePartition: a partition that the members of one share group read.

Source: Kafka's SharePartition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kproxy.broker.change_signal import ChangeSignal
from kproxy.broker.log.batch import StoredBatch
from kproxy.broker.shares.acknowledgement import Acknowledgement, AcknowledgementContext, acknowledge
from kproxy.broker.shares.acquisition import AcquiredRange, AcquireRequest, RecordAcquirer
from kproxy.broker.shares.inflight import AcquiredBatch, RecordState, Run
from kproxy.broker.shares.records import AcquiredRecords
from kproxy.broker.shares.states import ShareState, ShareStates, StateBatch

if TYPE_CHECKING:
    from kproxy.broker.clock import Clock, Timer
    from kproxy.broker.shares.settings import ShareSettings
    from kproxy.broker.topics import Partition


class SharePartition:
    """The records that members have acquired, with their states and acquisition locks.

    Acquisitions are lost on a restart and when the partition's leader changes; acknowledgements are not.

    Args:
        group: The group id.
        partition: The topic partition.
        state: The stored state; its `start_offset` may still be unknown.
        start: The offset to start from.
        states: Where changes to the state are stored.
        settings: The settings of share groups.
        clock: The broker's clock.

    Attributes:
        changed: Notified when more records can be acquired, and on close.
        closed: Whether the share partition has been replaced or deleted.
    """

    def __init__(
        self,
        group: str,
        partition: Partition,
        state: ShareState,
        start: int,
        states: ShareStates,
        settings: ShareSettings,
        clock: Clock,
    ) -> None:
        self.changed = ChangeSignal()
        self.closed = False
        self.leader_epoch = partition.leader_epoch
        self._group = group
        self._topic_id_partition = partition.topic_id, partition.index
        self._state = state
        self._states = states
        self._settings = settings
        self._clock = clock
        self._timer: Timer | None = None
        self._expires_at = 0
        self._records = _load_records(start, state)
        self._records.advance()
        if state.leader_epoch != partition.leader_epoch:
            state.leader_epoch = partition.leader_epoch
            states.store(group, self._topic_id_partition, state)

    @property
    def start_offset(self) -> int:
        """The start offset: every record before it is complete (Kafka's SPSO)."""
        return self._records.start

    @property
    def next_offset(self) -> int:
        """The offset to read from."""
        return self._records.next_offset

    @property
    def has_room(self) -> bool:
        """Whether any more records can be acquired."""
        records = self._records
        return records.next_offset != records.end + 1 or records.count < self._settings.max_locks(self._group)

    def acquire(
        self,
        member: str,
        batches: Sequence[StoredBatch],
        offset: int,
        records: int,
        batch_size: int,
        *,
        strict: bool = False,
    ) -> list[AcquiredRange]:
        """Acquire records for a member.

        Args:
            member: The member id.
            batches: Batches from the log.
            offset: The `next_offset` from which the batches were read.
            records: Maximum number of records.
            batch_size: See `AcquireRequest`.
            strict: See `AcquireRequest`.
        """
        lock_end_ms = self._clock.now() + self._settings.lock_ms(self._group)
        max_locks, max_deliveries = self._settings.max_locks(self._group), self._settings.max_deliveries(self._group)
        request = AcquireRequest(member, records, batch_size, strict, lock_end_ms, max_locks, max_deliveries)
        acquired = RecordAcquirer(self._records, batches, offset, request).acquire_all()
        if acquired:
            self._schedule_expiry(lock_end_ms)
        return acquired

    def archive(self, first: int, last: int) -> None:
        """Archive acquired records whose transaction was aborted."""
        self._records.archive(first, last, RecordState.ACQUIRED)

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Apply all of a member's acknowledgements, or none of them.

        Raises:
            ApiError: INVALID_RECORD_STATE, INVALID_REQUEST.
        """
        renewed_until_ms = (
            self._clock.now() + self._settings.lock_ms(self._group)
            if self._settings.allows_renewal(self._group)
            else None
        )
        acknowledge(
            self._records,
            AcknowledgementContext(member, renewed_until_ms, self._settings.max_deliveries(self._group)),
            acknowledgements,
        )
        self._store_and_advance()

    def release(self, member: str) -> None:
        """Release the records of a member that has left."""
        self._release_runs(lambda run: run.member == member)

    def move_start(self, offset: int) -> None:
        """Move the start to the log's new start offset."""
        self._records.move_start(offset)

    def close(self) -> None:
        """Close the partition: cancel its timer, and wake waiting readers."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.changed.notify()

    def _schedule_expiry(self, lock_end_ms: int) -> None:
        if self._timer is not None:
            if self._expires_at <= lock_end_ms:
                return
            self._timer.cancel()
        self._expires_at = lock_end_ms
        self._timer = self._clock.schedule(lock_end_ms - self._clock.now(), self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_ms = self._clock.now()
        self._release_runs(lambda run: run.until <= now_ms)
        lock_ends = [run.until for run in self._records.runs() if run.state is RecordState.ACQUIRED]
        if lock_ends:
            self._schedule_expiry(max(min(lock_ends), now_ms + 1))

    def _release_runs(self, is_selected: Callable[[Run], bool]) -> None:
        """Make the selected acquired records available again, or archive those before the start offset."""
        start, max_deliveries = self._records.start, self._settings.max_deliveries(self._group)
        has_released = False
        for batch in self._records:
            if not any(run.state is RecordState.ACQUIRED and is_selected(run) for run in batch.runs):
                continue
            batch.split |= batch.first < start <= batch.last
            for first, last, state in (
                (batch.first, start - 1, RecordState.ARCHIVED),
                (max(start, batch.first), batch.last, RecordState.AVAILABLE),
            ):
                for run in batch.split_runs_between(first, last):
                    if run.state is RecordState.ACQUIRED and is_selected(run):
                        run.end_acquisition(state, max_deliveries)
                        has_released = True
        if has_released:
            self._store_and_advance()

    def _store_and_advance(self) -> None:
        records, state = self._records, self._state
        # As in Kafka, clients see a moved start only after more records have been released.
        state.start_offset, state.complete, state.batches = records.start, records.complete, _state_batches(records)
        self._states.store(self._group, self._topic_id_partition, state)
        records.advance()
        self.changed.notify()


def _load_records(start: int, state: ShareState) -> AcquiredRecords:
    """Return the records in flight in a stored state; records that it omits have never been delivered."""
    records = AcquiredRecords(start)
    runs: list[Run] = []
    for batch in state.batches:
        if batch.first > start:
            runs.append(Run(start, batch.first - 1, RecordState.AVAILABLE, 0))
        runs.append(Run(batch.first, batch.last, RecordState(batch.state), batch.deliveries))
        start = batch.last + 1
    for run in runs:
        records.add(AcquiredBatch([run]))
    return records


def _state_batches(records: AcquiredRecords) -> list[StateBatch]:
    """Return the states to store: acquired records as they were before, adjacent equal states merged."""
    batches: list[StateBatch] = []
    for run in records.runs():
        is_acquired = run.state is RecordState.ACQUIRED
        deliveries = run.deliveries - is_acquired
        first = max(run.first, records.start)
        state = RecordState.AVAILABLE if is_acquired else run.state
        if run.last < first or (not deliveries and not state.is_terminal):
            continue
        previous = batches[-1] if batches else None
        if previous and (previous.last + 1, previous.state, previous.deliveries) == (first, state, deliveries):
            batches[-1] = previous._replace(last=run.last)
        else:
            batches.append(StateBatch(first, run.last, int(state), deliveries))
    return batches
