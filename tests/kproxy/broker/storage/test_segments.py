from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log import Log
from kproxy.broker.log.logs import Logs
from kproxy.broker.options import BrokerOptions
from kproxy.broker.storage import FileJournal
from kproxy.broker.storage import segments as segments_module
from tests.kproxy.broker.log.sample_logs import produced_batch, records, write


@contextmanager
def open_log(data: Path, topic_id: str = "A" * 22, **options: Any) -> Iterator[Log]:
    """Start a cluster that stores its data, yield its log ``t-0``, and stop the cluster."""
    journal = FileJournal(data, fsync=False)
    cluster = Cluster(BrokerOptions(data=data, **options), {}, journal=journal)
    try:
        log = Log(cluster, "t", topic_id, 0)
        log.begin_epoch(log.epochs.latest + 1)
        yield log
    finally:
        cluster.part(Logs).close()
        journal.close()


def files(data: Path) -> list[str]:
    return sorted(path.name for path in (data / "logs" / "t-0").glob("*.log"))


def test_log_survives_a_restart(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        write(log, produced_batch(3))
        write(log, produced_batch(2, producer_id=7, producer_epoch=1, base_sequence=0, is_transactional=True))
        log.append_marker(7, 1, 4, commit=False)
        write(log, produced_batch(2, producer_id=7, producer_epoch=1, base_sequence=2, is_transactional=True))
        old_records = records(log)
    with open_log(tmp_path) as log:
        assert records(log) == old_records
        assert (log.start_offset, log.end_offset, log.last_stable_offset) == (0, 8, 6)
        assert [aborted[:3] for aborted in log.aborted_transactions(0, 8)] == [(7, 3, 5)]
        state = log.producers.get(7)
        assert state is not None
        assert (state.epoch, state.last_sequence, state.coordinator_epoch, state.transaction_start) == (1, 3, 4, 6)
        assert log.epochs.end(0, log.end_offset) == (0, 8)
        assert write(log, produced_batch()).base_offset == 8


def test_files_have_kafkas_format_and_names(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        write(log, produced_batch(3))
        [batch] = log.batches(0, 3)
    directory = tmp_path / "logs" / "t-0"
    assert (directory / "00000000000000000000.log").read_bytes() == batch.data
    assert (directory / "partition.metadata").read_text() == f"version: 0\ntopic_id: {'A' * 22}\n"


@pytest.mark.parametrize("cut", [1, 20, 60, 80])
def test_truncated_batch_at_the_end_is_removed(tmp_path: Path, cut: int) -> None:
    with open_log(tmp_path) as log:
        write(log, produced_batch(3))
        write(log, produced_batch(3, size=100))
    path = tmp_path / "logs" / "t-0" / "00000000000000000000.log"
    os.truncate(path, path.stat().st_size - cut)
    with open_log(tmp_path) as log:
        assert log.end_offset == 3
        write(log, produced_batch(2))
    with open_log(tmp_path) as log:
        assert [record["offset"] for record in records(log)] == [0, 1, 2, 3, 4]


def test_batch_with_a_flipped_bit_and_all_later_ones_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES", 300)
    with open_log(tmp_path) as log:
        for _ in range(6):
            write(log, produced_batch(size=100))
    directory = tmp_path / "logs" / "t-0"
    assert len(files(tmp_path)) == 6
    path = directory / files(tmp_path)[2]
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with open_log(tmp_path) as log:
        assert log.end_offset == 2
        write(log, produced_batch())
    with open_log(tmp_path) as log:
        assert [record["offset"] for record in records(log)] == [0, 1, 2]


def test_segments_are_deleted_with_their_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES", 500)
    with open_log(tmp_path) as log:
        for _ in range(9):
            write(log, produced_batch(size=100))
        assert files(tmp_path) == [f"{base:020d}.log" for base in (0, 2, 4, 6, 8)]
        log.delete_before(5)
        assert files(tmp_path) == [f"{base:020d}.log" for base in (4, 6, 8)]
        log.delete_before(9)
        assert files(tmp_path) == ["00000000000000000008.log"]
    with open_log(tmp_path) as log:
        assert (log.start_offset, log.end_offset, log.size) == (9, 9, 0)
        assert write(log, produced_batch()).base_offset == 9
        log.delete_before(9)
    with open_log(tmp_path) as log:
        assert [record["offset"] for record in records(log)] == [9]


def test_files_of_an_earlier_topic_with_the_same_name_are_removed(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        write(log, produced_batch(3))
    with open_log(tmp_path, "B" * 22) as log:
        assert log.end_offset == 0
        log.delete()
    assert not (tmp_path / "logs" / "t-0").exists()


@pytest.mark.parametrize("torn", [b"", b"version: 0\ntopic_id: AAAA", b"\0" * 40, None])
def test_batches_survive_a_power_failure_before_the_topic_metadata_is_written(
    tmp_path: Path, torn: bytes | None
) -> None:
    with open_log(tmp_path) as log:
        write(log, produced_batch(3))
    metadata = tmp_path / "logs" / "t-0" / "partition.metadata"
    metadata.unlink() if torn is None else metadata.write_bytes(torn)
    with open_log(tmp_path) as log:
        assert log.end_offset == 3
    assert metadata.read_text().endswith(f"topic_id: {'A' * 22}\n")


def test_log_ignores_a_foreign_file_in_its_directory(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        write(log, produced_batch())
    (tmp_path / "logs" / "t-0" / "notes.log").touch()
    with open_log(tmp_path) as log:
        assert log.end_offset == 1


def test_full_disk_rejects_a_batch_and_leaves_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write = os.write

    def write_half(fd: int, data: memoryview) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return real_write(fd, data[: len(data) // 2])

    with open_log(tmp_path) as log:
        write(log, produced_batch(3))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_half)
            with pytest.raises(ApiError) as caught:
                write(log, produced_batch(3))
        assert caught.value.error is Error.KAFKA_STORAGE_ERROR
        assert log.end_offset == 3
        write(log, produced_batch(1))
    with open_log(tmp_path) as log:
        assert [record["offset"] for record in records(log)] == [0, 1, 2, 3]


async def test_concurrent_waiters_share_one_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_until_synced: list[int] = []
    real_fsync = os.fsync
    with open_log(tmp_path, fsync=True) as log:
        write(log, produced_batch())
        await log.wait_until_synced()
        monkeypatch.setattr(os, "fsync", lambda fd: (wait_until_synced.append(fd), real_fsync(fd)))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(20):
                write(log, produced_batch())
                tasks.create_task(log.wait_until_synced())
        assert len(wait_until_synced) == 1
        await log.wait_until_synced()
        assert len(wait_until_synced) == 1


async def test_failed_fsync_is_raised_to_all_waiters_and_later_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with open_log(tmp_path, fsync=True) as log:
        write(log, produced_batch())
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            results = await asyncio.gather(log.wait_until_synced(), log.wait_until_synced(), return_exceptions=True)
        assert [isinstance(result, ApiError) for result in results] == [True, True]
        with pytest.raises(ApiError):
            await log.wait_until_synced()
        with pytest.raises(ApiError):
            write(log, produced_batch())


async def test_nothing_waits_for_the_disk_without_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_log(tmp_path) as log:
        write(log, produced_batch())
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda fd: pytest.fail("synced"))
            await log.wait_until_synced()
