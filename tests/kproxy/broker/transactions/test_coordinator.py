from __future__ import annotations

from collections.abc import Callable

import pytest

from kproxy.broker.cluster import BrokerNode, Cluster
from kproxy.broker.configs import Configs
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.offsets import CommittedOffset, Offsets
from kproxy.broker.options import BrokerOptions
from kproxy.broker.registry import served_apis
from kproxy.broker.topics import Topics
from kproxy.broker.transactions import Producer, Transaction, Transactions, TransactionState
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.memory import MemoryJournal

MINUTE = 60_000


class TransactionHarness:
    """A cluster of one broker with the topic `a` of two partitions, and a fake clock."""

    def __init__(
        self, journal: MemoryJournal | None = None, clock: FakeClock | None = None, release: str | None = None
    ) -> None:
        self.journal = journal or MemoryJournal()
        self.clock = clock or FakeClock()
        self.cluster = Cluster(BrokerOptions(topics={"a": 2}, release=release), served_apis(), self.clock, self.journal)
        self.cluster.nodes[1] = BrokerNode(1, {"PLAINTEXT": ("localhost", 9092)})
        self.topics = self.cluster.part(Topics)
        self.transactions = self.cluster.part(Transactions)

    def restarted(self) -> TransactionHarness:
        self.transactions.close()
        return TransactionHarness(self.journal, self.clock)

    def end_offset(self, index: int = 0) -> int:
        partition = self.topics.partition("a", index)
        assert partition is not None
        return partition.log.end_offset

    def stage(self, producer: Producer, offset: int) -> None:
        topic = self.topics.by_name("a")
        assert topic is not None
        committed = CommittedOffset(offset, -1, "", self.clock.now(), topic.id)
        self.cluster.part(Offsets).stage(*producer, "g", {("a", 0): committed})

    def committed_offsets(self) -> dict[int, int]:
        return {
            topic_partition[1]: committed.offset
            for topic_partition, committed in self.cluster.part(Offsets).for_group("g").items()
        }

    def begin_transaction(self) -> Producer:
        """Begin a transaction in a-0; return its producer."""
        producer = self.transactions.init("t", MINUTE)
        self.transactions.add("t", producer, [("a", 0)])
        return producer

    def transaction(self) -> Transaction:
        transaction = self.transactions.by_id("t")
        assert transaction is not None
        return transaction


def refused_error(call: Callable[[], object]) -> Error:
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value.error


def test_every_idempotent_producer_gets_its_own_id() -> None:
    harness = TransactionHarness()
    first = [harness.transactions.begin() for _ in range(1500)]
    more = [harness.restarted().transactions.begin() for _ in range(2)]
    assert len({producer.id for producer in (*first, *more)}) == 1502
    assert {producer.epoch for producer in first} == {0}


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_rejects_a_timeout_outside_the_allowed_range(timeout_ms: int) -> None:
    assert (
        refused_error(lambda: TransactionHarness().transactions.init("t", timeout_ms))
        is Error.INVALID_TRANSACTION_TIMEOUT
    )


def test_rejects_an_unknown_or_empty_transactional_id() -> None:
    transactions = TransactionHarness().transactions
    assert refused_error(lambda: transactions.add("", Producer(0, 0))) is Error.INVALID_REQUEST
    assert refused_error(lambda: transactions.add("t", Producer(0, 0))) is Error.INVALID_PRODUCER_ID_MAPPING
    assert (
        refused_error(lambda: transactions.end("t", Producer(0, 0), commit=True)) is Error.INVALID_PRODUCER_ID_MAPPING
    )


def test_commit_completes_when_markers_and_offsets_are_written() -> None:
    harness = TransactionHarness()
    producer = harness.begin_transaction()
    harness.transactions.add("t", producer, groups=["g"])
    harness.stage(producer, 5)
    assert harness.transactions.end("t", producer, commit=True) == producer
    assert (harness.transaction().state, harness.end_offset(), harness.committed_offsets()) == (
        TransactionState.PREPARE_COMMIT,
        0,
        {},
    )
    add_partition = lambda: harness.transactions.add("t", producer, [("a", 1)])  # noqa: E731
    assert refused_error(add_partition) is Error.CONCURRENT_TRANSACTIONS
    harness.clock.advance()
    assert (harness.transaction().state, harness.end_offset(), harness.committed_offsets()) == (
        TransactionState.COMPLETE_COMMIT,
        1,
        {0: 5},
    )
    assert harness.end_offset(1) == 0
    add_partition()


def test_abort_drops_the_staged_offsets() -> None:
    harness = TransactionHarness()
    producer = harness.begin_transaction()
    harness.transactions.add("t", producer, groups=["g"])
    harness.stage(producer, 5)
    harness.transactions.end("t", producer, commit=False)
    harness.clock.advance()
    assert (harness.transaction().state, harness.end_offset(), harness.committed_offsets()) == (
        TransactionState.COMPLETE_ABORT,
        1,
        {},
    )


def test_commit_waits_for_a_leader() -> None:
    harness = TransactionHarness()
    producer = harness.begin_transaction()
    partition = harness.topics.partition("a", 0)
    assert partition is not None
    harness.topics.set_leader(partition, -1)
    harness.transactions.end("t", producer, commit=True)
    harness.clock.advance(MINUTE)
    assert refused_error(lambda: harness.transactions.init("t", MINUTE)) is Error.CONCURRENT_TRANSACTIONS
    harness.topics.set_leader(partition, 1)
    harness.clock.advance(100)
    assert (harness.transaction().state, harness.end_offset()) == (TransactionState.COMPLETE_COMMIT, 1)


def test_commit_completes_if_a_topic_was_deleted() -> None:
    harness = TransactionHarness()
    producer = harness.begin_transaction()
    topic = harness.topics.by_name("a")
    assert topic is not None
    harness.topics.delete(topic)
    harness.transactions.end("t", producer, commit=True)
    harness.clock.advance()
    assert harness.transaction().state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("release", ["3.9", None])
def test_second_producer_fences_the_first_once_its_transaction_is_aborted(release: str | None) -> None:
    harness = TransactionHarness(release=release)
    first = harness.begin_transaction()
    assert refused_error(lambda: harness.transactions.init("t", MINUTE)) is Error.CONCURRENT_TRANSACTIONS
    assert refused_error(lambda: harness.transactions.init("t", MINUTE)) is Error.CONCURRENT_TRANSACTIONS
    harness.clock.advance()
    second = harness.transactions.init("t", MINUTE)
    assert (second.id, second.epoch) == (first.id, first.epoch + 2)
    assert refused_error(lambda: harness.transactions.end("t", first, commit=True)) is Error.PRODUCER_FENCED
    assert refused_error(lambda: harness.transactions.add("t", first, [("a", 0)])) is Error.PRODUCER_FENCED


@pytest.mark.parametrize(("release", "expected"), [("3.9", (0, 32767)), (None, (1, 0))])
def test_fencing_at_the_last_epoch_allocates_a_new_producer_id(release: str | None, expected: Producer) -> None:
    harness = TransactionHarness(release=release)
    harness.begin_transaction()
    harness.transaction().producer = Producer(0, 32766)
    assert refused_error(lambda: harness.transactions.init("t", MINUTE)) is Error.CONCURRENT_TRANSACTIONS
    harness.clock.advance()
    assert (harness.transaction().producer, harness.end_offset()) == (expected, 1)
    assert harness.transactions.init("t", MINUTE) == (1, 0 if release else 1)


def test_transaction_is_aborted_after_its_timeout() -> None:
    harness = TransactionHarness()
    producer = harness.begin_transaction()
    harness.clock.advance(MINUTE // 2)
    harness.transactions.add("t", producer, [("a", 1)])
    harness.clock.advance(MINUTE // 2 - 1)
    assert harness.transaction().state is TransactionState.ONGOING
    harness.clock.advance(1)
    assert (harness.transaction().state, harness.end_offset(), harness.end_offset(1)) == (
        TransactionState.COMPLETE_ABORT,
        1,
        1,
    )
    assert refused_error(lambda: harness.transactions.end("t", producer, commit=True)) is Error.PRODUCER_FENCED


def test_transaction_that_ends_in_time_is_not_aborted() -> None:
    harness = TransactionHarness()
    harness.transactions.end("t", harness.begin_transaction(), commit=True)
    harness.clock.advance(2 * MINUTE)
    assert (harness.transaction().state, harness.end_offset()) == (TransactionState.COMPLETE_COMMIT, 1)


def test_transaction_timeout_continues_after_a_restart() -> None:
    harness = TransactionHarness()
    producer = harness.begin_transaction()
    harness = harness.restarted()
    harness.transactions.add("t", producer, [("a", 1)])
    harness.clock.advance(MINUTE)
    assert (harness.transaction().state, harness.end_offset(1)) == (TransactionState.COMPLETE_ABORT, 1)


def test_restart_completes_a_prepared_commit() -> None:
    harness = TransactionHarness()
    harness.transactions.end("t", harness.begin_transaction(), commit=True)
    harness = harness.restarted()
    harness.clock.advance()
    assert (harness.transaction().state, harness.end_offset()) == (TransactionState.COMPLETE_COMMIT, 1)


def test_unused_transactional_id_expires() -> None:
    harness = TransactionHarness()
    harness.transactions.end("t", harness.begin_transaction(), commit=True)
    harness.clock.advance()
    expiration_ms = int(harness.cluster.part(Configs).broker("transactional.id.expiration.ms"))
    harness.clock.advance(expiration_ms - 1)
    harness.transactions.init("other", MINUTE)
    assert harness.transactions.by_id("t") is not None
    harness.clock.advance(expiration_ms)
    harness.transactions.init("other", MINUTE)
    assert harness.transactions.by_id("t") is None
    assert "t" not in harness.journal.tables["transactions"]


def test_abort_without_a_transaction_bumps_the_epoch_in_version_2() -> None:
    harness = TransactionHarness()
    producer = harness.transactions.init("t", MINUTE)
    new_producer = harness.transactions.end("t", producer, commit=False, version=2)
    harness.clock.advance()
    assert new_producer == (producer.id, producer.epoch + 1)
    assert harness.end_offset() == 0
    harness.transactions.add("t", new_producer, [("a", 0)])
