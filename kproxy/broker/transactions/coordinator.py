"""The transaction coordinator: all transactional ids of a cluster, their timeouts, and transaction markers.

Source: kafka.coordinator.transaction.TransactionCoordinator, TransactionStateManager, TransactionMarkerChannelManager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from kproxy.broker.configs import Configs
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.features import Features
from kproxy.broker.groups.offsets import Offsets, TopicPartition
from kproxy.broker.topics import Topics
from kproxy.broker.transactions.producer_ids import ProducerIds
from kproxy.broker.transactions.transaction import Producer, Transaction, TransactionState

if TYPE_CHECKING:
    from kproxy.broker.clock import Timer
    from kproxy.broker.cluster import Cluster

#: The coordinator epoch in every marker: here the coordinator of a transactional id never changes.
COORDINATOR_EPOCH: Final = 0
_FEATURE: Final = "transaction.version"
_TABLE: Final = "transactions"
_RETRY_MS: Final = 100  # delay before retrying a partition without a leader
_SWEEP_MS: Final = 3_600_000  # between checks for unused transactional ids
_MAX_IDS: Final = 20_000  # limits memory, together with the limits per transaction
_MAX_GROUPS: Final = 1_000


class Transactions:
    """The transactional ids of a cluster.

    `end` takes effect in the next turn of the event loop, after the response is sent, as soon as the partitions have
    leaders: until then the producer gets CONCURRENT_TRANSACTIONS, as in Kafka.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._configs = cluster.part(Configs)
        self._features = cluster.part(Features)
        self._topics = cluster.part(Topics)
        self._offsets = cluster.part(Offsets)
        self._new_id = cluster.part(ProducerIds).new
        self._timers: dict[str, Timer] = {}
        self._last_sweep = self._clock.now()
        self._by_id = {name: Transaction.from_journal(name, stored) for name, stored in cluster.journal.entries(_TABLE)}
        for transaction in self._by_id.values():
            self._store_and_schedule(transaction)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._by_id.values())

    def by_id(self, transactional_id: str) -> Transaction | None:
        """Return the transaction with that id; None if there is none."""
        return self._by_id.get(transactional_id)

    def begin(self) -> Producer:
        """Assign an id to an idempotent producer without a transactional id."""
        return Producer(self._new_id(), 0)

    def init(self, transactional_id: str, timeout_ms: int, expected: Producer | None = None) -> Producer:
        """Start a producer, and fence the previous one with its transactional id.

        Args:
            transactional_id: The transactional id, not empty.
            timeout_ms: The producer's transaction timeout.
            expected: The producer's previous id and epoch, if it continues after an error (KIP-360).

        Raises:
            ApiError: INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, INVALID_REQUEST if there are too many ids;
                CONCURRENT_TRANSACTIONS while the previous producer's transaction is being aborted.
        """
        if not 0 < timeout_ms <= int(self._configs.broker("transaction.max.timeout.ms")):
            raise ApiError(Error.INVALID_TRANSACTION_TIMEOUT)
        now_ms = self._clock.now()
        self._sweep(now_ms)
        transaction = self._by_id.get(transactional_id)
        if transaction is None:
            if len(self._by_id) >= _MAX_IDS:
                raise ApiError(Error.INVALID_REQUEST, f"{_MAX_IDS} transactional ids are in use")
            transaction = Transaction(transactional_id, Producer(self._new_id(), -1), timeout_ms, now_ms)
            self._by_id[transactional_id] = transaction
        transaction.check_renewal(expected)
        if transaction.state is TransactionState.ONGOING:
            self._fence(transaction)
            raise ApiError(Error.CONCURRENT_TRANSACTIONS)
        transaction.renew(timeout_ms, expected, self._new_id, now_ms)
        self._store_and_schedule(transaction)
        return transaction.producer

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        topic_partitions: Collection[TopicPartition] = (),
        groups: Collection[str] = (),
        *,
        version: int = 0,
    ) -> None:
        """Add partitions, and groups whose offsets are committed, to the producer's transaction.

        Raises:
            ApiError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        transaction = self._find_transaction(transactional_id)
        transaction.check_addition(producer)
        if not transaction.has(topic_partitions, groups):
            if len(transaction.groups) + len(groups) > _MAX_GROUPS:
                raise ApiError(Error.INVALID_REQUEST, f"a transaction can commit offsets of {_MAX_GROUPS} groups")
            transaction.add(topic_partitions, groups, version, self._clock.now())
            self._store_and_schedule(transaction)

    def verify(
        self,
        transactional_id: str,
        producer: Producer,
        *,
        topic_partition: TopicPartition | None = None,
        group: str | None = None,
    ) -> None:
        """Raise `ApiError` unless a partition, or a group, is part of the producer's transaction (KIP-890).

        Raises:
            ApiError: See `add`; also TRANSACTION_ABORTABLE if it is not part of the transaction.
        """
        self._find_transaction(transactional_id).check_participant(producer, topic_partition, group)

    def end(self, transactional_id: str, producer: Producer, *, commit: bool, version: int = 0) -> Producer:
        """Commit or abort the producer's transaction; return the producer's new id and epoch.

        Args:
            transactional_id: The transactional id.
            producer: The producer.
            commit: Whether to commit; else abort.
            version: The client's transaction version; from `EPOCH_BUMP_VERSION` on the epoch is incremented.

        Raises:
            ApiError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
                INVALID_TXN_STATE.
        """
        transaction = self._find_transaction(transactional_id)
        if transaction.check_end(producer, commit, version):
            transaction.prepare(commit, version, self._new_id, self._clock.now())
            self._store_and_schedule(transaction)
        return transaction.successor

    def close(self) -> None:
        """Cancel all timeouts."""
        for timer in self._timers.values():
            timer.cancel()

    def _find_transaction(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise ApiError(Error.INVALID_REQUEST)
        if (transaction := self._by_id.get(transactional_id)) is None:
            raise ApiError(Error.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def _fence(self, transaction: Transaction) -> None:
        transaction.fence(self._features.level(_FEATURE), self._new_id, self._clock.now())
        self._store_and_schedule(transaction)

    def _store_and_schedule(self, transaction: Transaction) -> None:
        """Store a transaction's state, and schedule its next step."""
        self._cluster.journal.put(_TABLE, transaction.id, transaction.to_journal())
        if (timer := self._timers.pop(transaction.id, None)) is not None:
            timer.cancel()
        if transaction.completing:
            self._timers[transaction.id] = self._clock.schedule(0, lambda: self._complete(transaction))
        elif transaction.state is TransactionState.ONGOING:
            remaining_ms = transaction.started_at + transaction.timeout_ms - self._clock.now()
            self._timers[transaction.id] = self._clock.schedule(remaining_ms, lambda: self._fence(transaction))

    def _complete(self, transaction: Transaction) -> None:
        if not self._cluster.journal.is_stored:  # the decision must survive a restart before markers follow it
            self._timers[transaction.id] = self._clock.schedule(_RETRY_MS, lambda: self._complete(transaction))
            return
        transaction.partitions.difference_update(
            [
                topic_partition
                for topic_partition in transaction.partitions
                if self._write_marker(transaction, topic_partition)
            ]
        )
        if transaction.partitions:
            self._timers[transaction.id] = self._clock.schedule(_RETRY_MS, lambda: self._complete(transaction))
            return
        is_commit = transaction.state is TransactionState.PREPARE_COMMIT
        for group in transaction.groups:
            self._offsets.complete(*transaction.producer, group, is_commit)
        transaction.complete(self._clock.now())
        self._store_and_schedule(transaction)

    def _write_marker(self, transaction: Transaction, topic_partition: TopicPartition) -> bool:
        """Write the marker to a partition; return False if it must be retried."""
        partition = self._topics.partition(*topic_partition)
        if partition is None:  # it has been deleted in the meantime
            return True
        if partition.leader < 0:
            return False
        is_commit = transaction.state is TransactionState.PREPARE_COMMIT
        try:
            partition.log.append_marker(*transaction.producer, COORDINATOR_EPOCH, commit=is_commit)
        except ApiError as api_error:  # fenced: an administrator ended it there with a higher epoch
            return api_error.error is not Error.KAFKA_STORAGE_ERROR
        return True

    def _sweep(self, now_ms: int) -> None:
        """Delete transactional ids that have not been used for a long time (transactional.id.expiration.ms)."""
        if now_ms - self._last_sweep < _SWEEP_MS:
            return
        self._last_sweep = now_ms
        cutoff_ms = now_ms - int(self._configs.broker("transactional.id.expiration.ms"))
        idle_transactions = [
            transaction
            for transaction in self
            if not (transaction.completing or transaction.state is TransactionState.ONGOING)
        ]
        for transaction in idle_transactions:
            if transaction.updated_at <= cutoff_ms:
                del self._by_id[transaction.id]
                self._cluster.journal.put(_TABLE, transaction.id, None)
