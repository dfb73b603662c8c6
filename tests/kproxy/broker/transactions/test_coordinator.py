from __future__ import annotations

from collections.abc import Callable

import pytest

from kproxy.broker.cluster import BrokerNode, Cluster
from kproxy.broker.configs import Configs
from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups.offsets import Committed, Offsets
from kproxy.broker.options import BrokerOptions
from kproxy.broker.registry import served
from kproxy.broker.topics import Topics
from kproxy.broker.transactions import Producer, Transaction, Transactions, TransactionState
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.memory import Memory

MINUTE = 60_000


class Bench:
    """A cluster of one broker with a topic `a` of two partitions, and a clock that stands still."""

    def __init__(
        self, journal: Memory | None = None, clock: FakeClock | None = None, release: str | None = None
    ) -> None:
        self.journal = journal or Memory()
        self.clock = clock or FakeClock()
        self.cluster = Cluster(BrokerOptions(topics={"a": 2}, release=release), served(), self.clock, self.journal)
        self.cluster.nodes[1] = BrokerNode(1, {"PLAINTEXT": ("localhost", 9092)})
        self.topics = self.cluster.part(Topics)
        self.transactions = self.cluster.part(Transactions)

    def restarted(self) -> Bench:
        self.transactions.close()
        return Bench(self.journal, self.clock)

    def end_offset(self, index: int = 0) -> int:
        partition = self.topics.partition("a", index)
        assert partition is not None
        return partition.log.end_offset

    def stage(self, producer: Producer, offset: int) -> None:
        topic = self.topics.named("a")
        assert topic is not None
        committed = Committed(offset, -1, "", self.clock.now(), topic.id)
        self.cluster.part(Offsets).stage(*producer, "g", {("a", 0): committed})

    def committed(self) -> dict[int, int]:
        return {place[1]: each.offset for place, each in self.cluster.part(Offsets).of("g").items()}

    def begun(self) -> Producer:
        """A producer with an ongoing transaction in a-0."""
        producer = self.transactions.init("t", MINUTE)
        self.transactions.add("t", producer, [("a", 0)])
        return producer

    def transaction(self) -> Transaction:
        found = self.transactions.with_id("t")
        assert found is not None
        return found


def refusal(call: Callable[[], object]) -> Error:
    with pytest.raises(Refused) as refused:
        call()
    return refused.value.error


def test_every_producer_without_a_transactional_id_has_an_id_of_its_own() -> None:
    bench = Bench()
    first = [bench.transactions.begin() for _ in range(1500)]
    more = [bench.restarted().transactions.begin() for _ in range(2)]
    assert len({each.id for each in (*first, *more)}) == 1502
    assert {each.epoch for each in first} == {0}


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_a_timeout_has_to_be_within_what_the_brokers_allow(timeout_ms: int) -> None:
    assert refusal(lambda: Bench().transactions.init("t", timeout_ms)) is Error.INVALID_TRANSACTION_TIMEOUT


def test_the_transactional_id_has_to_be_known_and_not_empty() -> None:
    transactions = Bench().transactions
    assert refusal(lambda: transactions.add("", Producer(0, 0))) is Error.INVALID_REQUEST
    assert refusal(lambda: transactions.add("t", Producer(0, 0))) is Error.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: transactions.end("t", Producer(0, 0), commit=True)) is Error.INVALID_PRODUCER_ID_MAPPING


def test_a_commit_is_complete_when_the_markers_are_written_and_the_offsets_hold() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.transactions.add("t", producer, groups=["g"])
    bench.stage(producer, 5)
    assert bench.transactions.end("t", producer, commit=True) == producer
    assert (bench.transaction().state, bench.end_offset(), bench.committed()) == (
        TransactionState.PREPARE_COMMIT,
        0,
        {},
    )
    again = lambda: bench.transactions.add("t", producer, [("a", 1)])  # noqa: E731
    assert refusal(again) is Error.CONCURRENT_TRANSACTIONS
    bench.clock.go_on()
    assert (bench.transaction().state, bench.end_offset(), bench.committed()) == (
        TransactionState.COMPLETE_COMMIT,
        1,
        {0: 5},
    )
    assert bench.end_offset(1) == 0
    again()


def test_an_abort_drops_the_offsets() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.transactions.add("t", producer, groups=["g"])
    bench.stage(producer, 5)
    bench.transactions.end("t", producer, commit=False)
    bench.clock.go_on()
    assert (bench.transaction().state, bench.end_offset(), bench.committed()) == (
        TransactionState.COMPLETE_ABORT,
        1,
        {},
    )


def test_a_commit_waits_for_a_leader() -> None:
    bench = Bench()
    producer = bench.begun()
    partition = bench.topics.partition("a", 0)
    assert partition is not None
    bench.topics.lead(partition, -1)
    bench.transactions.end("t", producer, commit=True)
    bench.clock.go_on(MINUTE)
    assert refusal(lambda: bench.transactions.init("t", MINUTE)) is Error.CONCURRENT_TRANSACTIONS
    bench.topics.lead(partition, 1)
    bench.clock.go_on(100)
    assert (bench.transaction().state, bench.end_offset()) == (TransactionState.COMPLETE_COMMIT, 1)


def test_a_topic_that_is_deleted_meanwhile_holds_nobody_up() -> None:
    bench = Bench()
    producer = bench.begun()
    topic = bench.topics.named("a")
    assert topic is not None
    bench.topics.delete(topic)
    bench.transactions.end("t", producer, commit=True)
    bench.clock.go_on()
    assert bench.transaction().state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("release", ["3.9", None])
def test_a_second_producer_fences_the_first_when_its_transaction_is_aborted(release: str | None) -> None:
    bench = Bench(release=release)
    first = bench.begun()
    assert refusal(lambda: bench.transactions.init("t", MINUTE)) is Error.CONCURRENT_TRANSACTIONS
    assert refusal(lambda: bench.transactions.init("t", MINUTE)) is Error.CONCURRENT_TRANSACTIONS
    bench.clock.go_on()
    second = bench.transactions.init("t", MINUTE)
    assert (second.id, second.epoch) == (first.id, first.epoch + 2)
    assert refusal(lambda: bench.transactions.end("t", first, commit=True)) is Error.PRODUCER_FENCED
    assert refusal(lambda: bench.transactions.add("t", first, [("a", 0)])) is Error.PRODUCER_FENCED


@pytest.mark.parametrize(("release", "after"), [("3.9", (0, 32767)), (None, (1, 0))])
def test_a_fenced_producer_with_the_last_epoch_leaves_room_for_another(release: str | None, after: Producer) -> None:
    bench = Bench(release=release)
    bench.begun()
    bench.transaction().producer = Producer(0, 32766)
    assert refusal(lambda: bench.transactions.init("t", MINUTE)) is Error.CONCURRENT_TRANSACTIONS
    bench.clock.go_on()
    assert (bench.transaction().producer, bench.end_offset()) == (after, 1)
    assert bench.transactions.init("t", MINUTE) == (1, 0 if release else 1)


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    bench = Bench()
    producer = bench.begun()
    bench.clock.go_on(MINUTE // 2)
    bench.transactions.add("t", producer, [("a", 1)])
    bench.clock.go_on(MINUTE // 2 - 1)
    assert bench.transaction().state is TransactionState.ONGOING
    bench.clock.go_on(1)
    assert (bench.transaction().state, bench.end_offset(), bench.end_offset(1)) == (
        TransactionState.COMPLETE_ABORT,
        1,
        1,
    )
    assert refusal(lambda: bench.transactions.end("t", producer, commit=True)) is Error.PRODUCER_FENCED


def test_one_that_ends_in_time_is_not() -> None:
    bench = Bench()
    bench.transactions.end("t", bench.begun(), commit=True)
    bench.clock.go_on(2 * MINUTE)
    assert (bench.transaction().state, bench.end_offset()) == (TransactionState.COMPLETE_COMMIT, 1)


def test_a_restart_aborts_what_takes_too_long_then() -> None:
    bench = Bench()
    producer = bench.begun()
    bench = bench.restarted()
    bench.transactions.add("t", producer, [("a", 1)])
    bench.clock.go_on(MINUTE)
    assert (bench.transaction().state, bench.end_offset(1)) == (TransactionState.COMPLETE_ABORT, 1)


def test_a_restart_goes_on_with_what_was_decided() -> None:
    bench = Bench()
    bench.transactions.end("t", bench.begun(), commit=True)
    bench = bench.restarted()
    bench.clock.go_on()
    assert (bench.transaction().state, bench.end_offset()) == (TransactionState.COMPLETE_COMMIT, 1)


def test_an_id_that_nobody_uses_is_forgotten_in_the_end() -> None:
    bench = Bench()
    bench.transactions.end("t", bench.begun(), commit=True)
    bench.clock.go_on()
    days = int(bench.cluster.part(Configs).broker("transactional.id.expiration.ms"))
    bench.clock.go_on(days - 1)
    bench.transactions.init("other", MINUTE)
    assert bench.transactions.with_id("t") is not None
    bench.clock.go_on(days)
    bench.transactions.init("other", MINUTE)
    assert bench.transactions.with_id("t") is None
    assert "t" not in bench.journal.tables["transactions"]


def test_an_abort_without_a_transaction_bumps_the_epoch_in_version_2() -> None:
    bench = Bench()
    producer = bench.transactions.init("t", MINUTE)
    after = bench.transactions.end("t", producer, commit=False, version=2)
    bench.clock.go_on()
    assert after == (producer.id, producer.epoch + 1)
    assert bench.end_offset() == 0
    bench.transactions.add("t", after, [("a", 0)])
