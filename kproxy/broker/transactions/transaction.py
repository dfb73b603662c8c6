"""Transaction: the state of one transactional id, and its allowed transitions. Pure logic without I/O or clock.

Source: org.apache.kafka.coordinator.transaction.TransactionMetadata and TransactionCoordinator. There a state is
pending while the transaction log is written; here that takes no time, and only the wait for markers remains.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.offsets import TopicPartition

NO_PRODUCER: Final = -1
_LAST_EPOCH: Final = 2**15 - 1  # never assigned to a producer, so that it can always be fenced

#: The transaction version that increments the epoch whenever a transaction ends (KIP-890).
EPOCH_BUMP_VERSION: Final = 2


class Producer(NamedTuple):
    """A producer id and epoch."""

    id: int
    epoch: int


class TransactionState(StrEnum):
    """Kafka's transaction states; the last two only occur in requests."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


@dataclass(slots=True)
class Transaction:
    """A transactional id.

    Attributes:
        id: The transactional id.
        producer: The current producer; its epoch is -1 before the first one.
        timeout_ms: The producer's transaction timeout.
        state: See `TransactionState`.
        previous_id: The producer id before the last step; a client that missed the response still uses it.
        last_epoch: The epoch before the last increment that a producer requested; -1 if nobody may return with it.
        next_id: The producer id after this transaction, if the epochs of the current one are exhausted.
        partitions: The partitions in the transaction.
        groups: The groups whose offsets it commits.
        started_at: When the transaction began, in ms since the epoch; -1 if none has begun.
        updated_at: When it last changed.
        version: The transaction version of the last client that changed it; see `EPOCH_BUMP_VERSION`.
    """

    id: str
    producer: Producer
    timeout_ms: int
    updated_at: int
    state: TransactionState = TransactionState.EMPTY
    previous_id: int = NO_PRODUCER
    last_epoch: int = NO_PRODUCER
    next_id: int = NO_PRODUCER
    partitions: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    started_at: int = -1
    version: int = 0

    @property
    def completing(self) -> bool:
        """Whether the outcome has been decided, but markers remain to be written."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def exhausted(self) -> bool:
        """Whether the epochs of the current producer id are used up."""
        return _is_exhausted(self.producer.epoch)

    @property
    def successor(self) -> Producer:
        """The producer as it will be once the transaction is complete."""
        if self.version >= EPOCH_BUMP_VERSION and self.next_id != NO_PRODUCER:
            return Producer(self.next_id, 0)
        return self.producer

    def check_renewal(self, expected: Producer | None) -> None:
        """Raise `ApiError` unless a producer with that previous id and epoch may become the next one (KIP-360)."""
        if self.completing:
            raise ApiError(Error.CONCURRENT_TRANSACTIONS)
        is_current = expected is None or self.producer.epoch == NO_PRODUCER or expected.id == self.producer.id
        if not is_current and not (expected.id == self.previous_id and _is_exhausted(expected.epoch)):  # type: ignore[union-attr]
            raise ApiError(Error.PRODUCER_FENCED)

    def renew(self, timeout_ms: int, expected: Producer | None, new_id: Callable[[], int], now: int) -> None:
        """Start a producer with this transactional id, and fence all previous ones.

        Raises:
            ApiError: PRODUCER_FENCED if `expected`, its previous id and epoch, has already been replaced.
        """
        previous = self.producer
        if self.exhausted and (expected is None or expected.epoch == previous.epoch):
            self.producer = Producer(new_id(), 0)
            self.last_epoch = NO_PRODUCER if expected is None else previous.epoch
        elif expected is None or previous.epoch in (NO_PRODUCER, expected.epoch):
            self.producer = Producer(previous.id, previous.epoch + 1)
            self.last_epoch = NO_PRODUCER if expected is None else previous.epoch
        elif expected.epoch != self.last_epoch:  # otherwise it repeats a request that has already been processed
            raise ApiError(Error.PRODUCER_FENCED)
        self.previous_id, self.timeout_ms = previous.id, timeout_ms
        self.state, self.started_at, self.updated_at = TransactionState.EMPTY, -1, now
        self.partitions, self.groups = set(), set()

    def check_addition(self, producer: Producer) -> None:
        """Raise `ApiError` unless the producer may add partitions and groups."""
        if self.completing:
            raise ApiError(Error.CONCURRENT_TRANSACTIONS)
        self._check_producer(producer)

    def check_participant(self, producer: Producer, topic_partition: TopicPartition | None, group: str | None) -> None:
        """Raise `ApiError` unless the partition or group is part of the producer's transaction."""
        self._check_producer(producer)
        if self.completing:
            raise ApiError(Error.CONCURRENT_TRANSACTIONS)
        if not (topic_partition in self.partitions if group is None else group in self.groups):
            raise ApiError(Error.TRANSACTION_ABORTABLE)

    def has(self, topic_partitions: Collection[TopicPartition], groups: Collection[str]) -> bool:
        """Whether all these partitions and groups are already part of the transaction."""
        return (
            self.state is TransactionState.ONGOING
            and self.partitions.issuperset(topic_partitions)
            and self.groups.issuperset(groups)
        )

    def add(
        self, topic_partitions: Collection[TopicPartition], groups: Collection[str], version: int, now: int
    ) -> None:
        """Add partitions and groups to the transaction, starting it if needed."""
        if self.state is not TransactionState.ONGOING:
            self.started_at = now
        self.partitions.update(topic_partitions)
        self.groups.update(groups)
        self.previous_id, self.state, self.updated_at, self.version = (
            self.producer.id,
            TransactionState.ONGOING,
            now,
            version,
        )

    def check_end(self, producer: Producer, commit: bool, version: int) -> bool:
        """Return whether the producer's commit or abort must still be performed; false if the request is repeated.

        Raises:
            ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
        """
        is_complete = self.state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
        if version < EPOCH_BUMP_VERSION:
            self._check_producer(producer)
            if self.completing:
                raise ApiError(Error.CONCURRENT_TRANSACTIONS)
            if self.state is not TransactionState.ONGOING and not is_complete:
                raise ApiError(Error.INVALID_TXN_STATE)
            return not is_complete
        if self.completing:
            raise ApiError(Error.CONCURRENT_TRANSACTIONS)
        is_repeated = self.state in (
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        ) and self._missed_response(producer)
        if not is_repeated:
            self._check_producer(producer)
        if not is_complete if is_repeated else commit and self.state is not TransactionState.ONGOING:
            raise ApiError(Error.INVALID_TXN_STATE)
        return not is_repeated

    def prepare(self, commit: bool, version: int, new_id: Callable[[], int], now: int) -> None:
        """Decide the outcome. From `EPOCH_BUMP_VERSION` on, the producer and the markers get the next epoch."""
        if self.state is not TransactionState.ONGOING:  # an abort without a transaction, to increment the epoch
            self.started_at = now
        previous = self.producer
        if version >= EPOCH_BUMP_VERSION:
            self.next_id = new_id() if self.exhausted else NO_PRODUCER
            self.producer, self.last_epoch = Producer(previous.id, min(previous.epoch + 1, _LAST_EPOCH)), previous.epoch
        self.previous_id, self.updated_at, self.version = previous.id, now, version
        self.state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT

    def fence(self, version: int, new_id: Callable[[], int], now: int) -> None:
        """Abort the transaction of a fenced producer: it has been replaced, or its transaction has timed out."""
        if version < EPOCH_BUMP_VERSION:
            self.producer = Producer(self.producer.id, min(self.producer.epoch + 1, _LAST_EPOCH))
            self.last_epoch = NO_PRODUCER
        self.prepare(False, version, new_id, now)

    def complete(self, now: int) -> None:
        """Complete the transaction: all markers have been written."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        self.previous_id, self.producer = self.producer.id, self.successor
        self.state, self.updated_at = (
            TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
            now,
        )
        self.next_id, self.partitions, self.groups = NO_PRODUCER, set(), set()

    def to_journal(self) -> Mapping[str, Any]:
        """Return the state to store in the journal."""
        return {
            "producer": list(self.producer),
            "timeout_ms": self.timeout_ms,
            "updated_at": self.updated_at,
            "state": self.state.value,
            "previous_id": self.previous_id,
            "last_epoch": self.last_epoch,
            "next_id": self.next_id,
            "places": sorted(self.partitions),
            "groups": sorted(self.groups),
            "started_at": self.started_at,
            "version": self.version,
        }

    @classmethod
    def from_journal(cls, transactional_id: str, stored: Mapping[str, Any]) -> Self:
        """Return a transaction restored from the result of `to_journal`."""
        return cls(
            id=transactional_id,
            producer=Producer(*stored["producer"]),
            state=TransactionState(stored["state"]),
            partitions={(topic, partition) for topic, partition in stored["places"]},
            groups=set(stored["groups"]),
            **{name: stored[name] for name in _PLAIN_FIELDS},
        )

    def _check_producer(self, producer: Producer) -> None:
        if producer.id != self.producer.id:
            raise ApiError(Error.INVALID_PRODUCER_ID_MAPPING)
        if producer.epoch != self.producer.epoch:
            raise ApiError(Error.PRODUCER_FENCED)

    def _missed_response(self, producer: Producer) -> bool:
        """Whether the producer still has the epoch from before the last transaction ended and incremented it."""
        if producer.id == self.producer.id and producer.epoch + 1 == self.producer.epoch:
            return True
        return producer == (self.previous_id, _LAST_EPOCH - 1) and self.producer.epoch == 0


_PLAIN_FIELDS: Final = ("timeout_ms", "updated_at", "previous_id", "last_epoch", "next_id", "started_at", "version")


def _is_exhausted(epoch: int) -> bool:
    return epoch >= _LAST_EPOCH - 1
