"""Producer state of a log: sequences, epochs and transactions of producers with an id."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log.batch import Header, Marker, add_to_sequence

_MAX_REMEMBERED_BATCHES: Final = 5  # batches; as many as an idempotent producer may have in flight
#: Maximum number of producers without an open transaction that a log remembers; Kafka has no such limit.
_MAX_PRODUCERS: Final = 50_000


class SentBatch(NamedTuple):
    """A producer's batch, for detecting duplicates. Sequences and offsets are inclusive, and the time is in ms."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class AbortedTransaction(NamedTuple):
    """An aborted transaction, from its first offset in this log to the offset of its marker.

    `last_stable_offset` is the last stable offset when it ended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(slots=True)
class ProducerState:
    """The state of one producer; times in ms.

    Attributes:
        id: The producer id.
        epoch: The latest epoch with which it wrote; -1 if there is none.
        batches: Its last five batches with that epoch, oldest first.
        last_timestamp: The highest timestamp in its last batch, or the time of its last marker.
        coordinator_epoch: The epoch of the coordinator that ended its last transaction; -1 if there is none.
        transaction_start: The first offset of its open transaction; None if it has none.
    """

    id: int
    epoch: int = -1
    batches: deque[SentBatch] = field(default_factory=lambda: deque(maxlen=_MAX_REMEMBERED_BATCHES))
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    transaction_start: int | None = None

    @property
    def last_sequence(self) -> int:
        """The last sequence of its last batch; -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStates:
    """The producers of one log, and their transactions. Iterating yields the producers' states.

    Source: Kafka's ProducerStateManager, ProducerAppendInfo.

    Args:
        name: The partition's name, for error messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._states: dict[int, ProducerState] = {}
        self._open_starts: dict[int, int] = {}  # producer id -> first offset of its open transaction; oldest first
        self._aborted: list[AbortedTransaction] = []  # sorted by last_offset

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        """Return the state of a producer; None if it is unknown."""
        return self._states.get(producer_id)

    @property
    def first_open(self) -> int | None:
        """The first offset of the oldest open transaction; None if there is none."""
        return next(iter(self._open_starts.values()), None)

    def find_duplicate(self, header: Header) -> SentBatch | None:
        """Return the producer's recent batch that this batch repeats; None if it is new."""
        state = self._states.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch:
            return None
        sequences = header.base_sequence, header.last_sequence
        return next((sent_batch for sent_batch in state.batches if sent_batch[:2] == sequences), None)

    def check(self, header: Header, offset: int) -> None:
        """Raise `ApiError` unless a batch to be written at `offset` continues its producer's sequence and epoch.

        Raises:
            ApiError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        state = self._states.get(header.producer_id)
        if state is None:
            return
        self._check_epoch(state, header.producer_epoch, offset)
        location = f"at offset {offset} in partition {self._name}"
        first_sequence = header.base_sequence
        if header.producer_epoch != state.epoch:
            if first_sequence != 0:
                raise ApiError(
                    Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {state.id} {location}: "
                    f"{header.producer_epoch} (request epoch), {first_sequence} (seq. number), "
                    f"{state.epoch} (current producer epoch)",
                )
        elif first_sequence != (add_to_sequence(state.last_sequence, 1) if state.batches else 0):
            raise ApiError(
                Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {state.id} {location}: "
                f"{first_sequence} (incoming seq. number), {state.last_sequence} (current end sequence number)",
            )
        if state.transaction_start is not None and not header.transactional:
            raise ApiError(Error.INVALID_TXN_STATE, f"Expected transactional write from producer {state.id} {location}")

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int) -> None:
        """Raise `ApiError` unless a producer's transaction may be ended.

        Raises:
            ApiError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        state = self._states.get(producer_id)
        if state is None:
            return
        self._check_epoch(state, epoch, offset)
        if state.coordinator_epoch > coordinator_epoch:
            raise ApiError(
                Error.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {producer_id} at offset {offset} in partition {self._name}: "
                f"{coordinator_epoch} (zombie), {state.coordinator_epoch} (current)",
            )

    def record_batch(self, header: Header) -> None:
        """Record a batch that has been appended."""
        state = self._get_or_create(header.producer_id, header.producer_epoch)
        last_offset = header.base_offset + header.last_offset_delta
        state.batches.append(
            SentBatch(header.base_sequence, header.last_sequence, header.base_offset, last_offset, header.max_timestamp)
        )
        state.last_timestamp = header.max_timestamp
        if header.transactional and state.transaction_start is None:
            state.transaction_start = self._open_starts[state.id] = header.base_offset

    def record_marker(self, header: Header, marker: Marker) -> None:
        """Record a marker that has been appended."""
        state = self._get_or_create(header.producer_id, header.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = header.max_timestamp
        if state.transaction_start is None:
            return
        first_offset, state.transaction_start = state.transaction_start, None
        del self._open_starts[state.id]
        if not marker.commit:
            last_stable_offset = header.base_offset + 1 if self.first_open is None else self.first_open
            self._aborted.append(AbortedTransaction(state.id, first_offset, header.base_offset, last_stable_offset))

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in [`start`, `end`)."""
        return [
            transaction
            for transaction in self._aborted
            if transaction.last_offset >= start and transaction.first_offset < end
        ]

    def forget_before(self, offset: int) -> None:
        """Remove the aborted transactions that ended before `offset`, the new start of the log."""
        self._aborted = [transaction for transaction in self._aborted if transaction.last_offset >= offset]

    def expire(self, cutoff: int) -> None:
        """Remove producers without an open transaction whose last write was before a time."""
        expired_ids = [
            producer_state.id
            for producer_state in self
            if producer_state.transaction_start is None and producer_state.last_timestamp < cutoff
        ]
        for producer_id in expired_ids:
            del self._states[producer_id]

    def _get_or_create(self, producer_id: int, epoch: int) -> ProducerState:
        state = self._states.get(producer_id)
        if state is None:
            if len(self._states) >= _MAX_PRODUCERS:
                self._forget_oldest()
            state = self._states[producer_id] = ProducerState(producer_id)
        if state.epoch != epoch:
            state.epoch = epoch
            state.batches.clear()
        return state

    def _forget_oldest(self) -> None:
        idle_id = next((producer_state.id for producer_state in self if producer_state.transaction_start is None), None)
        if idle_id is not None:
            del self._states[idle_id]

    def _check_epoch(self, state: ProducerState, epoch: int, offset: int) -> None:
        if epoch < state.epoch:
            raise ApiError(
                Error.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {state.id} at offset {offset} in {self._name} is {epoch}, "
                f"which is smaller than the last seen epoch {state.epoch}",
            )
