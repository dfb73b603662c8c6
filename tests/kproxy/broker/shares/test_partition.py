from __future__ import annotations

import pytest

from kproxy.broker.configs import Configs
from kproxy.broker.errors import Error, Refused
from kproxy.broker.shares.acknowledgement import RENEW, Acknowledgement, read
from kproxy.broker.shares.inflight import AcquiredBatch, RecordState, Run
from kproxy.broker.shares.records import AcquiredRecords
from kproxy.broker.shares.sessions import ShareSession
from kproxy.broker.shares.shares import Shares
from kproxy.broker.topics import Topics
from tests.kproxy.broker.share_partition import Shared

GAP, ACCEPT, RELEASE, REJECT = range(4)
FINE = Error.NONE, None


def test_whole_batches_are_acquired_by_one_member() -> None:
    shared = Shared()
    shared.produce(10, 10, 10)
    assert shared.acquire("a", records=15) == [(0, 19, 1)], "a batch is not divided"
    assert shared.acquire("b", batch_size=5) == [(20, 29, 1)]
    assert shared.acquire("c") == []


def test_records_come_in_portions_of_batches() -> None:
    shared = Shared()
    shared.produce(3, 3, 3, 3)
    assert shared.acquire(batch_size=4) == [(0, 5, 1), (6, 11, 1)]


def test_the_strict_mode_divides_batches() -> None:
    shared = Shared()
    shared.produce(10)
    assert shared.acquire("a", records=4, strict=True) == [(0, 3, 1)]
    assert shared.acquire("b", records=4, strict=True) == [(4, 7, 1)]
    assert shared.acquire("c") == [(8, 9, 1)]


def test_what_becomes_of_records() -> None:
    shared = Shared()
    shared.produce(5)
    shared.acquire()
    assert shared.say(0, 3, ACCEPT, RELEASE, REJECT, GAP) == FINE
    assert shared.offsets == (0, 3)
    assert shared.share.start_offset == 1
    assert shared.acquire("b") == [(1, 1, 2)]
    assert shared.say(1, 1, ACCEPT, member="b") == FINE
    assert shared.say(4, 4, ACCEPT) == FINE
    assert shared.share.start_offset == 5
    assert shared.share.next_offset == 5


@pytest.mark.parametrize(
    ("first", "last", "types", "member", "message"),
    [
        (0, 9, [ACCEPT], "b", "Member is not the owner of batch record"),
        (0, 4, [ACCEPT], "b", "Member is not the owner of batch record"),
        (0, 12, [ACCEPT], "a", "Batch record not found. The last offset in request is past acquired records."),
        (10, 12, [ACCEPT], "a", "Batch record not found. The first offset in request is past acquired records."),
    ],
)
def test_records_that_a_member_does_not_have(
    first: int, last: int, types: list[int], member: str, message: str
) -> None:
    shared = Shared()
    shared.produce(10)
    shared.acquire("a")
    error = Error.INVALID_REQUEST if message.startswith("Batch") else Error.INVALID_RECORD_STATE
    assert shared.say(first, last, *types, member=member) == (error, message)
    assert shared.say(0, 9, ACCEPT) == FINE


def test_an_acknowledgement_is_done_as_a_whole_or_not_at_all() -> None:
    shared = Shared()
    shared.produce(10, 10)
    shared.acquire(batch_size=10)
    shared.say(12, 12, ACCEPT)
    said = [Acknowledgement(0, 9, [ACCEPT]), Acknowledgement(10, 19, [ACCEPT])]
    with pytest.raises(Refused, match="The offset is not acquired"):
        shared.share.acknowledge("a", said)
    assert shared.say(0, 9, ACCEPT) == FINE, "they are still the member's"


def test_an_acknowledgement_twice() -> None:
    shared = Shared()
    shared.produce(10, 1)
    shared.acquire(batch_size=1)
    assert shared.say(10, 10, ACCEPT) == FINE
    message = "The batch cannot be acknowledged. The batch is not in the acquired state."
    assert shared.say(10, 10, ACCEPT) == (Error.INVALID_RECORD_STATE, message)
    shared.say(0, 9, ACCEPT)
    assert shared.say(0, 9, ACCEPT) == FINE, "that is before the start"


def test_records_are_free_again_when_their_time_is_over() -> None:
    shared = Shared(group_share_record_lock_duration_ms="20000")
    shared.produce(10)
    shared.acquire("a")
    shared.clock.go_on(10_000)
    shared.say(0, 4, RENEW)
    shared.clock.go_on(10_001)
    assert shared.acquire("b") == [(5, 9, 2)]
    shared.clock.go_on(10_001)
    assert shared.acquire("c") == [(0, 4, 2)]
    assert shared.say(0, 0, ACCEPT, member="a") == (
        Error.INVALID_RECORD_STATE,
        "Member is not the owner of offset",
    )


def test_renewals_can_be_off() -> None:
    shared = Shared()
    shared.cluster.part(Configs).set("group", "g", {"share.renew.acknowledge.enable": "false"})
    shared.produce(1)
    shared.acquire()
    message = "Renewing acquisition locks is not enabled for the group."
    assert shared.say(0, 0, RENEW) == (Error.INVALID_RECORD_STATE, message)


def test_records_that_are_delivered_again_and_again_are_given_up() -> None:
    shared = Shared(group_share_delivery_count_limit="3")
    shared.produce(1)
    for count in (1, 2, 3):
        assert shared.acquire() == [(0, 0, count)]
        shared.say(0, 0, RELEASE)
    assert shared.acquire() == []
    assert shared.share.start_offset == 1


def test_often_delivered_records_come_in_smaller_portions_and_at_last_alone() -> None:
    shared = Shared()
    shared.produce(10)
    got = []
    for _ in range(9):
        [(first, last, count)] = shared.acquire()
        got.append((first, last, count))
        shared.share.release("a")
    assert got[:3] == [(0, 9, 1), (0, 9, 2), (0, 9, 3)]
    assert got[3:6] == [(0, 4, 4), (0, 0, 5), (1, 1, 5)], "half of the batch, then one by one"


def test_a_record_that_is_delivered_for_the_last_time_comes_alone() -> None:
    shared = Shared()
    shared.produce(5)
    shared.acquire()
    for count in (2, 3, 4):
        shared.say(4, 4, RELEASE)
        assert shared.acquire() == [(4, 4, count)]
    shared.say(0, 4, RELEASE)
    assert shared.acquire() == [(0, 3, 2)]
    assert shared.acquire() == [(4, 4, 5)]


def test_a_member_that_goes_gives_back_what_it_has() -> None:
    shared = Shared()
    shared.produce(5, 5)
    shared.acquire("a", records=5)
    shared.acquire("b", records=5)
    shared.share.release("a")
    assert shared.acquire("c") == [(0, 4, 2)]


def test_only_so_many_records_are_in_flight() -> None:
    shared = Shared(group_share_partition_max_record_locks="10")
    shared.produce(5, 5, 5)
    assert shared.acquire("a") == [(0, 9, 1)]
    assert not shared.share.has_room
    shared.say(5, 6, RELEASE)
    assert shared.acquire("b") == [(5, 6, 2)], "some that came back, no new ones"
    shared.say(0, 4, ACCEPT)
    assert shared.acquire("b") == [(10, 14, 1)]


def test_a_log_that_begins_later_takes_its_records_with_it() -> None:
    shared = Shared()
    shared.produce(10)
    shared.acquire("a")
    shared.say(0, 9, RELEASE)
    shared.log.delete_before(4)
    assert shared.acquire("b") == [(4, 9, 2)]
    assert shared.say(0, 9, ACCEPT, member="b") == FINE
    assert shared.share.start_offset == 10


def test_a_log_that_begins_behind_all_that_is_in_flight() -> None:
    shared = Shared()
    shared.produce(10, 10, 10)
    shared.acquire("a", records=10)
    shared.log.delete_before(20)
    shared.share.move_start(20)
    assert shared.share.next_offset == 20
    assert shared.acquire("b") == [(20, 29, 1)]
    assert shared.say(0, 9, ACCEPT) == FINE, "they are gone"
    shared.share.release("a")
    assert shared.say(20, 29, ACCEPT, member="b") == FINE
    assert shared.share.start_offset == 30


def test_the_first_record_in_flight_is_the_start() -> None:
    records = AcquiredRecords(0)
    records.add(AcquiredBatch([Run(3, 5, RecordState.AVAILABLE, 0)]))
    assert (records.start, records.end, records.next_offset) == (3, 5, 3)


def test_between_offsets_that_do_not_ascend_there_is_nothing() -> None:
    batch = AcquiredBatch([Run(0, 9, RecordState.AVAILABLE, 0)])
    assert batch.within(6, 3) == []
    assert [(run.first, run.last) for run in batch.runs] == [(0, 9)]
    assert [(run.first, run.last) for run in batch.within(4, 6)] == [(4, 6)]
    assert batch.at(10) is None


def test_records_before_the_start_that_somebody_has_are_given_up_when_they_come_back() -> None:
    shared = Shared()
    shared.produce(10, 10)
    shared.acquire("a", records=10)
    shared.share.move_start(5)
    shared.share.release("a")
    assert shared.acquire("b") == [(5, 9, 2), (10, 19, 1)]


def test_acknowledgements_that_begin_before_the_start() -> None:
    shared = Shared()
    shared.produce(10)
    shared.acquire("a")
    shared.say(0, 0, RELEASE)
    shared.share.move_start(6)
    assert shared.say(1, 8, *[ACCEPT, RELEASE] * 4) == FINE
    assert shared.acquire("b") == [(6, 6, 2), (8, 8, 2)]


def test_what_was_acknowledged_outlives_a_restart() -> None:
    shared = Shared()
    shared.produce(20)
    shared.acquire("a")
    shared.say(2, 3, ACCEPT)
    shared.say(10, 12, RELEASE)
    shared.acquire("b")
    shared.restart()
    shared.produce(20)
    assert shared.offsets == (0, 2)
    assert shared.acquire("c") == [(0, 1, 1), (4, 9, 1), (10, 12, 2), (13, 19, 1)]


def test_the_start_outlives_a_restart() -> None:
    shared = Shared()
    shared.produce(5, 5)
    shared.acquire("a")
    shared.say(0, 4, ACCEPT)
    shared.restart()
    assert shared.share.start_offset == 5


def test_another_leader_knows_nothing_of_what_members_have() -> None:
    shared = Shared()
    shared.produce(5)
    shared.acquire("a")
    topics = shared.cluster.part(Topics)
    partition = topics.partition("t", 0)
    assert partition is not None
    before = shared.share
    topics.lead(partition, -1)
    topics.lead(partition, 1)
    assert shared.cluster.part(Shares).opened("g", partition) is None
    assert shared.acquire("b") == [(0, 4, 1)]
    assert before.closed


def test_a_group_that_begins_anew() -> None:
    shared = Shared()
    shared.produce(10)
    shared.acquire("a")
    part, before = next(iter(shared.states.of("g"))), shared.share
    shared.states.initialize("g", part, 2, 7)
    assert before.closed
    assert shared.offsets == (7, 0)
    assert shared.acquire("b") == [(7, 9, 1)]
    shared.states.forget_all("g")
    with pytest.raises(Refused, match="uninitialized"):
        shared.acquire("b")


@pytest.mark.parametrize(
    ("reset", "start"), [("latest", 3), ("earliest", 0), ("by_duration:PT1M", 1), ("by_duration:P1DT2S", 0)]
)
def test_where_a_group_begins(reset: str, start: int) -> None:
    shared = Shared()
    shared.cluster.part(Configs).set("group", "new", {"share.auto.offset.reset": reset})
    shared.produce(1)
    shared.clock.go_on(100_000)
    shared.produce(2)
    partition = shared.cluster.part(Topics).partition("t", 0)
    assert partition is not None
    shared.states.initialize("new", (partition.topic_id, 0), 1)
    assert shared.cluster.part(Shares).open("new", partition).start_offset == start


@pytest.mark.parametrize(
    "batches",
    [
        [(3, 2, [ACCEPT])],
        [(-1, 2, [ACCEPT]), (-5, 2, [ACCEPT])],
        [(4, 4, [ACCEPT]), (3, 3, [ACCEPT])],
        [(0, 1, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(0, 0, [RENEW])],
    ],
)
def test_acknowledgements_that_cannot_be(batches: list[tuple[int, int, list[int]]]) -> None:
    said = [{"first_offset": a, "last_offset": b, "acknowledge_types": types} for a, b, types in batches]
    with pytest.raises(Refused) as refused:
        read(said, renews=True, is_renewal=False)
    assert refused.value.error is Error.INVALID_REQUEST


def test_what_a_member_is_told_of_a_partition() -> None:
    part = "t", 0
    session = ShareSession(1, {part: True})
    assert session.must_send(part, has_records=False, has_error=False), "it is new"
    assert not session.must_send(part, has_records=False, has_error=False)
    assert session.must_send(part, has_records=True, has_error=False)
    assert session.must_send(part, has_records=False, has_error=True)
    assert session.must_send(part, has_records=False, has_error=False), "the error is over"
    assert not session.must_send(part, has_records=False, has_error=False)
