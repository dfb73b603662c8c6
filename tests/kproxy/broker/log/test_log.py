from __future__ import annotations

import pytest

from dissectors.records import decode
from kproxy.broker.log import Log
from kproxy.broker.log.conversion import down_convert
from kproxy.broker.log.logs import Logs
from tests.kproxy.broker.log.sample_logs import NOW, make_cluster, new_log, produced_batch, records, write


def sizes(log: Log) -> list[int]:
    return [len(batch.data) for batch in log.batches(0, log.end_offset)]


def test_read_returns_whole_batches_from_the_one_with_the_offset() -> None:
    log = new_log()
    for _ in range(5):
        write(log, produced_batch(10))
    batch_size = sizes(log)[0]
    assert [batch.base_offset for batch in log.read(15, 50, 3 * batch_size, at_least_one=True)] == [10, 20, 30]
    assert [batch.base_offset for batch in log.read(15, 50, 3 * batch_size - 1, at_least_one=True)] == [10, 20]
    assert [batch.base_offset for batch in log.read(15, 50, 0, at_least_one=True)] == [10]
    assert log.read(15, 50, batch_size - 1, at_least_one=False) == []
    assert log.read(50, 50, batch_size, at_least_one=True) == []
    assert [batch.base_offset for batch in log.read(0, 20, 10 * batch_size, at_least_one=True)] == [0, 10]


def test_finds_the_first_record_since_a_time() -> None:
    log = new_log()
    for timestamp in (NOW, NOW + 50, NOW + 20, NOW + 100):
        write(log, produced_batch(3, at=timestamp))
    assert log.record_since(0) == (0, NOW)
    assert log.record_since(NOW + 2) == (2, NOW + 2)
    assert log.record_since(NOW + 3) == (3, NOW + 50)
    assert log.record_since(NOW + 53) == (9, NOW + 100)
    assert log.record_since(NOW + 103) is None
    assert log.greatest_timestamp == NOW + 102


def test_finds_records_by_time_after_later_ones_are_deleted() -> None:
    log = new_log()
    for timestamp in (NOW + 100, NOW, NOW + 50):
        write(log, produced_batch(2, at=timestamp))
    log.delete_before(2)
    assert log.record_since(NOW + 50) == (4, NOW + 50)
    assert log.record_since(NOW + 90) is None
    assert log.greatest_timestamp == NOW + 51


def test_deleting_keeps_the_batch_that_holds_the_start_offset() -> None:
    log = new_log()
    for _ in range(3):
        write(log, produced_batch(10))
    size = log.size
    log.delete_before(15)
    assert (log.start_offset, log.end_offset) == (15, 30)
    assert log.size == size * 2 // 3
    assert records(log, 15)[0]["offset"] == 15
    assert log.record_since(0) == (15, NOW + 5)
    log.delete_before(30)
    assert (log.start_offset, log.end_offset, log.size) == (30, 30, 0)


def test_all_logs_together_stay_within_the_cap() -> None:
    cluster = make_cluster(retention_bytes=100_000)
    small, large = new_log(cluster), Log(cluster, "large", "another-id", 0)
    write(small, produced_batch(size=1000))
    for _ in range(1000):
        write(large, produced_batch(size=1000))
        assert small.memory + large.memory <= 100_000
    assert small.size > 0
    assert large.start_offset > 900
    assert large.end_offset == 1000
    large.delete()
    for _ in range(200):
        write(small, produced_batch(size=1000))
    assert 90_000 < small.memory <= 100_000


def test_cap_below_one_batch_retains_nothing() -> None:
    log = new_log(make_cluster(retention_bytes=10))
    write(log, produced_batch(3))
    assert (log.start_offset, log.end_offset, log.size) == (3, 3, 0)


def test_retention_deletes_by_size_and_time() -> None:
    log = new_log()
    for age in range(10):
        write(log, produced_batch(at=NOW + age))
    batch_size = log.size // 10
    log.retain(8 * batch_size, None)
    assert log.start_offset == 2
    log.retain(8 * batch_size - 1, None)
    assert log.start_offset == 2  # never below the requested size
    log.retain(-1, NOW + 5)
    assert log.start_offset == 5
    log.retain(-1, None)
    assert log.start_offset == 5


def test_batches_without_a_timestamp_do_not_expire() -> None:
    log = new_log()
    write(log, produced_batch(at=-1))
    log.retain(-1, NOW)
    assert log.start_offset == 0


def test_stored_start_offset_is_deleted_with_the_log() -> None:
    cluster = make_cluster()
    log = new_log(cluster)
    write(log, produced_batch(3))
    log.delete_before(2)
    assert cluster.part(Logs).start_offset(log.key) == 2
    log.delete()
    assert log.closed
    assert cluster.part(Logs).start_offset(log.key) == 0


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_down_conversion_drops_records_before_the_fetch_offset_unless_compressed(magic: int, codec: str) -> None:
    log = new_log()
    write(log, produced_batch(5))
    write(log, produced_batch(3, compression=codec))
    [batch] = log.batches(6, 8)
    converted_records = [record for message in decode(down_convert(batch, magic, 6)) for record in message["records"]]
    assert [record["offset"] for record in converted_records] == ([6, 7] if codec == "none" else [5, 6, 7])
    assert all(record["value"] == b"v" for record in converted_records)
    assert [record.get("timestamp") for record in converted_records][-1] == (NOW + 2 if magic else None)


def test_old_clients_get_no_control_batches() -> None:
    log = new_log()
    log.append_marker(1, 0, 0, commit=True)
    assert down_convert(next(log.batches(0, 1)), 1, 0) == b""


def test_transaction_marker_is_a_control_batch_in_kafkas_format() -> None:
    log = new_log()
    log.append_marker(4711, 3, 9, commit=False)
    [batch] = decode(next(log.batches(0, 1)).data)
    assert batch["is_control"]
    assert batch["is_transactional"]
    assert (batch["producer_id"], batch["producer_epoch"], batch["base_sequence"]) == (4711, 3, -1)
    [record] = batch["records"]
    assert record["control"] == {"type": "ABORT", "version": 0}
    assert record["value"] == bytes.fromhex("0000 00000009")
