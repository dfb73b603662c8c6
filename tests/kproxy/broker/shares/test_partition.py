from __future__ import annotations

import pytest

from kproxy.broker.configs import Configs
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.shares.acknowledgement import RENEW, Acknowledgement, read_acknowledgements
from kproxy.broker.shares.inflight import AcquiredBatch, RecordState, Run
from kproxy.broker.shares.records import AcquiredRecords
from kproxy.broker.shares.sessions import ShareSession
from kproxy.broker.shares.shares import SharePartitions
from kproxy.broker.topics import Topics
from tests.kproxy.broker.share_partition import SharePartitionHarness

GAP, ACCEPT, RELEASE, REJECT = range(4)
ACCEPTED = Error.NONE, None


def test_whole_batches_are_acquired_by_one_member() -> None:
    harness = SharePartitionHarness()
    harness.produce(10, 10, 10)
    assert harness.acquire("a", records=15) == [(0, 19, 1)], "a batch is not divided"
    assert harness.acquire("b", batch_size=5) == [(20, 29, 1)]
    assert harness.acquire("c") == []


def test_acquired_records_are_split_at_batch_boundaries() -> None:
    harness = SharePartitionHarness()
    harness.produce(3, 3, 3, 3)
    assert harness.acquire(batch_size=4) == [(0, 5, 1), (6, 11, 1)]


def test_strict_mode_splits_batches() -> None:
    harness = SharePartitionHarness()
    harness.produce(10)
    assert harness.acquire("a", records=4, strict=True) == [(0, 3, 1)]
    assert harness.acquire("b", records=4, strict=True) == [(4, 7, 1)]
    assert harness.acquire("c") == [(8, 9, 1)]


def test_acknowledgement_types_decide_the_state_of_records() -> None:
    harness = SharePartitionHarness()
    harness.produce(5)
    harness.acquire()
    assert harness.acknowledge(0, 3, ACCEPT, RELEASE, REJECT, GAP) == ACCEPTED
    assert harness.offsets == (0, 3)
    assert harness.share_partition.start_offset == 1
    assert harness.acquire("b") == [(1, 1, 2)]
    assert harness.acknowledge(1, 1, ACCEPT, member="b") == ACCEPTED
    assert harness.acknowledge(4, 4, ACCEPT) == ACCEPTED
    assert harness.share_partition.start_offset == 5
    assert harness.share_partition.next_offset == 5


@pytest.mark.parametrize(
    ("first", "last", "types", "member", "message"),
    [
        (0, 9, [ACCEPT], "b", "Member is not the owner of batch record"),
        (0, 4, [ACCEPT], "b", "Member is not the owner of batch record"),
        (0, 12, [ACCEPT], "a", "Batch record not found. The last offset in request is past acquired records."),
        (10, 12, [ACCEPT], "a", "Batch record not found. The first offset in request is past acquired records."),
    ],
)
def test_rejects_acknowledgement_of_records_the_member_did_not_acquire(
    first: int, last: int, types: list[int], member: str, message: str
) -> None:
    harness = SharePartitionHarness()
    harness.produce(10)
    harness.acquire("a")
    error = Error.INVALID_REQUEST if message.startswith("Batch") else Error.INVALID_RECORD_STATE
    assert harness.acknowledge(first, last, *types, member=member) == (error, message)
    assert harness.acknowledge(0, 9, ACCEPT) == ACCEPTED


def test_acknowledgement_is_atomic() -> None:
    harness = SharePartitionHarness()
    harness.produce(10, 10)
    harness.acquire(batch_size=10)
    harness.acknowledge(12, 12, ACCEPT)
    acknowledgements = [Acknowledgement(0, 9, [ACCEPT]), Acknowledgement(10, 19, [ACCEPT])]
    with pytest.raises(ApiError, match="The offset is not acquired"):
        harness.share_partition.acknowledge("a", acknowledgements)
    assert harness.acknowledge(0, 9, ACCEPT) == ACCEPTED, (
        "the refused acknowledgement must leave offsets 0 to 9 acquired"
    )


def test_rejects_a_repeated_acknowledgement() -> None:
    harness = SharePartitionHarness()
    harness.produce(10, 1)
    harness.acquire(batch_size=1)
    assert harness.acknowledge(10, 10, ACCEPT) == ACCEPTED
    message = "The batch cannot be acknowledged. The batch is not in the acquired state."
    assert harness.acknowledge(10, 10, ACCEPT) == (Error.INVALID_RECORD_STATE, message)
    harness.acknowledge(0, 9, ACCEPT)
    assert harness.acknowledge(0, 9, ACCEPT) == ACCEPTED, "these records are before the start"


def test_records_are_available_after_their_acquisition_lock_expires() -> None:
    harness = SharePartitionHarness(group_share_record_lock_duration_ms="20000")
    harness.produce(10)
    harness.acquire("a")
    harness.clock.advance(10_000)
    harness.acknowledge(0, 4, RENEW)
    harness.clock.advance(10_001)
    assert harness.acquire("b") == [(5, 9, 2)]
    harness.clock.advance(10_001)
    assert harness.acquire("c") == [(0, 4, 2)]
    assert harness.acknowledge(0, 0, ACCEPT, member="a") == (
        Error.INVALID_RECORD_STATE,
        "Member is not the owner of offset",
    )


def test_rejects_renewals_if_disabled() -> None:
    harness = SharePartitionHarness()
    harness.cluster.part(Configs).set("group", "g", {"share.renew.acknowledge.enable": "false"})
    harness.produce(1)
    harness.acquire()
    message = "Renewing acquisition locks is not enabled for the group."
    assert harness.acknowledge(0, 0, RENEW) == (Error.INVALID_RECORD_STATE, message)


def test_archives_records_at_the_delivery_count_limit() -> None:
    harness = SharePartitionHarness(group_share_delivery_count_limit="3")
    harness.produce(1)
    for count in (1, 2, 3):
        assert harness.acquire() == [(0, 0, count)]
        harness.acknowledge(0, 0, RELEASE)
    assert harness.acquire() == []
    assert harness.share_partition.start_offset == 1


def test_frequently_delivered_records_are_acquired_in_smaller_runs() -> None:
    harness = SharePartitionHarness()
    harness.produce(10)
    acquired = []
    for _ in range(9):
        [(first, last, count)] = harness.acquire()
        acquired.append((first, last, count))
        harness.share_partition.release("a")
    assert acquired[:3] == [(0, 9, 1), (0, 9, 2), (0, 9, 3)]
    assert acquired[3:6] == [(0, 4, 4), (0, 0, 5), (1, 1, 5)], "half of the batch, then one by one"


def test_record_on_its_last_delivery_is_acquired_alone() -> None:
    harness = SharePartitionHarness()
    harness.produce(5)
    harness.acquire()
    for count in (2, 3, 4):
        harness.acknowledge(4, 4, RELEASE)
        assert harness.acquire() == [(4, 4, count)]
    harness.acknowledge(0, 4, RELEASE)
    assert harness.acquire() == [(0, 3, 2)]
    assert harness.acquire() == [(4, 4, 5)]


def test_releases_the_records_of_a_member_that_leaves() -> None:
    harness = SharePartitionHarness()
    harness.produce(5, 5)
    harness.acquire("a", records=5)
    harness.acquire("b", records=5)
    harness.share_partition.release("a")
    assert harness.acquire("c") == [(0, 4, 2)]


def test_limits_the_records_in_flight() -> None:
    harness = SharePartitionHarness(group_share_partition_max_record_locks="10")
    harness.produce(5, 5, 5)
    assert harness.acquire("a") == [(0, 9, 1)]
    assert not harness.share_partition.has_room
    harness.acknowledge(5, 6, RELEASE)
    assert harness.acquire("b") == [(5, 6, 2)], "released records, but no new ones"
    harness.acknowledge(0, 4, ACCEPT)
    assert harness.acquire("b") == [(10, 14, 1)]


def test_records_before_the_log_start_are_dropped() -> None:
    harness = SharePartitionHarness()
    harness.produce(10)
    harness.acquire("a")
    harness.acknowledge(0, 9, RELEASE)
    harness.log.delete_before(4)
    assert harness.acquire("b") == [(4, 9, 2)]
    assert harness.acknowledge(0, 9, ACCEPT, member="b") == ACCEPTED
    assert harness.share_partition.start_offset == 10


def test_log_start_may_move_past_all_records_in_flight() -> None:
    harness = SharePartitionHarness()
    harness.produce(10, 10, 10)
    harness.acquire("a", records=10)
    harness.log.delete_before(20)
    harness.share_partition.move_start(20)
    assert harness.share_partition.next_offset == 20
    assert harness.acquire("b") == [(20, 29, 1)]
    assert harness.acknowledge(0, 9, ACCEPT) == ACCEPTED, "the records are gone"
    harness.share_partition.release("a")
    assert harness.acknowledge(20, 29, ACCEPT, member="b") == ACCEPTED
    assert harness.share_partition.start_offset == 30


def test_start_is_the_first_record_in_flight() -> None:
    records = AcquiredRecords(0)
    records.add(AcquiredBatch([Run(3, 5, RecordState.AVAILABLE, 0)]))
    assert (records.start, records.end, records.next_offset) == (3, 5, 3)


def test_descending_offsets_select_no_runs() -> None:
    batch = AcquiredBatch([Run(0, 9, RecordState.AVAILABLE, 0)])
    assert batch.split_runs_between(6, 3) == []
    assert [(run.first, run.last) for run in batch.runs] == [(0, 9)]
    assert [(run.first, run.last) for run in batch.split_runs_between(4, 6)] == [(4, 6)]
    assert batch.run_at(10) is None


def test_released_records_before_the_start_are_dropped() -> None:
    harness = SharePartitionHarness()
    harness.produce(10, 10)
    harness.acquire("a", records=10)
    harness.share_partition.move_start(5)
    harness.share_partition.release("a")
    assert harness.acquire("b") == [(5, 9, 2), (10, 19, 1)]


def test_accepts_acknowledgements_that_start_before_the_start_offset() -> None:
    harness = SharePartitionHarness()
    harness.produce(10)
    harness.acquire("a")
    harness.acknowledge(0, 0, RELEASE)
    harness.share_partition.move_start(6)
    assert harness.acknowledge(1, 8, *[ACCEPT, RELEASE] * 4) == ACCEPTED
    assert harness.acquire("b") == [(6, 6, 2), (8, 8, 2)]


def test_acknowledgements_survive_a_restart() -> None:
    harness = SharePartitionHarness()
    harness.produce(20)
    harness.acquire("a")
    harness.acknowledge(2, 3, ACCEPT)
    harness.acknowledge(10, 12, RELEASE)
    harness.acquire("b")
    harness.restart()
    harness.produce(20)
    assert harness.offsets == (0, 2)
    assert harness.acquire("c") == [(0, 1, 1), (4, 9, 1), (10, 12, 2), (13, 19, 1)]


def test_start_offset_survives_a_restart() -> None:
    harness = SharePartitionHarness()
    harness.produce(5, 5)
    harness.acquire("a")
    harness.acknowledge(0, 4, ACCEPT)
    harness.restart()
    assert harness.share_partition.start_offset == 5


def test_new_leader_forgets_acquired_records() -> None:
    harness = SharePartitionHarness()
    harness.produce(5)
    harness.acquire("a")
    topics = harness.cluster.part(Topics)
    partition = topics.partition("t", 0)
    assert partition is not None
    old_share = harness.share_partition
    topics.set_leader(partition, -1)
    topics.set_leader(partition, 1)
    assert harness.cluster.part(SharePartitions).find_open("g", partition) is None
    assert harness.acquire("b") == [(0, 4, 1)]
    assert old_share.closed


def test_reinitialized_group_starts_at_its_new_offset() -> None:
    harness = SharePartitionHarness()
    harness.produce(10)
    harness.acquire("a")
    topic_partition, old_share = next(iter(harness.states.for_group("g"))), harness.share_partition
    harness.states.initialize("g", topic_partition, 2, 7)
    assert old_share.closed
    assert harness.offsets == (7, 0)
    assert harness.acquire("b") == [(7, 9, 1)]
    harness.states.forget_all("g")
    with pytest.raises(ApiError, match="uninitialized"):
        harness.acquire("b")


@pytest.mark.parametrize(
    ("reset", "start"), [("latest", 3), ("earliest", 0), ("by_duration:PT1M", 1), ("by_duration:P1DT2S", 0)]
)
def test_auto_offset_reset_decides_the_start_offset(reset: str, start: int) -> None:
    harness = SharePartitionHarness()
    harness.cluster.part(Configs).set("group", "new", {"share.auto.offset.reset": reset})
    harness.produce(1)
    harness.clock.advance(100_000)
    harness.produce(2)
    partition = harness.cluster.part(Topics).partition("t", 0)
    assert partition is not None
    harness.states.initialize("new", (partition.topic_id, 0), 1)
    assert harness.cluster.part(SharePartitions).open("new", partition).start_offset == start


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
def test_rejects_invalid_acknowledgements(batches: list[tuple[int, int, list[int]]]) -> None:
    rows = [{"first_offset": a, "last_offset": b, "acknowledge_types": types} for a, b, types in batches]
    with pytest.raises(ApiError) as refused:
        read_acknowledgements(rows, supports_renewal=True, is_renewal=False)
    assert refused.value.error is Error.INVALID_REQUEST


def test_session_sends_only_new_changed_or_failed_partitions() -> None:
    topic_partition = "t", 0
    session = ShareSession(1, {topic_partition: True})
    assert session.must_send(topic_partition, has_records=False, has_error=False), "it is new"
    assert not session.must_send(topic_partition, has_records=False, has_error=False)
    assert session.must_send(topic_partition, has_records=True, has_error=False)
    assert session.must_send(topic_partition, has_records=False, has_error=True)
    assert session.must_send(topic_partition, has_records=False, has_error=False), "the error is over"
    assert not session.must_send(topic_partition, has_records=False, has_error=False)
