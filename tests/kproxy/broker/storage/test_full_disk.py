"""A data directory that cannot be written: one report, an error code from every API, nothing lost or closed."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kproxy.broker.errors import Error
from kproxy.broker.groups.offsets import Offsets
from kproxy.broker.storage import FileJournal
from kproxy.broker.storage import journal as journal_module
from kproxy.broker.storage_errors import CODES
from kproxy.broker.storage_health import StorageHealth
from tests.kproxy.broker.data_requests import batch, fetch, log_of, offsets, produce
from tests.kproxy.broker.every_api import APIS, OPTIONS, WITH_LOGIN, ApiClient, needs_login
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.socket_client import SocketClient, broker_client
from tests.kproxy.broker.storage.broker_process import RemoteBroker, start_broker_process


class Disk:
    """A disk on which the broker's writes fail while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        write, mkdir = os.write, Path.mkdir

        def fake_write(fd: int, data: bytes | memoryview) -> int:
            # asyncio writes to sockets and pipes in other ways, so this is a file; the first bytes still fit
            if self.full and stat.S_ISREG(os.fstat(fd).st_mode):
                if len(data) > 4:
                    return write(fd, data[:4])
                raise OSError(28, "No space left on device")
            return write(fd, data)

        def fake_mkdir(path: Path, *args: Any, **options: Any) -> None:
            if self.full and not path.exists():
                raise OSError(28, "No space left on device", str(path))
            mkdir(path, *args, **options)

        monkeypatch.setattr(os, "write", fake_write)
        monkeypatch.setattr(Path, "mkdir", fake_mkdir)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock that tells `StorageHealth` when to retry."""
    clock, init = FakeClock(), StorageHealth.__init__
    monkeypatch.setattr(StorageHealth, "__init__", lambda self, *args: init(self, *args, clock=clock))
    return clock


def error_codes(values: Any) -> set[int]:
    """Return every error code in a response."""
    if isinstance(values, list):
        return {code for element in values for code in error_codes(element)}
    if not isinstance(values, Mapping):
        return set()
    direct = {value for name, value in values.items() if name.endswith("error_code")}
    return direct | {code for inner in values.values() for code in error_codes(inner)}


@pytest.mark.parametrize(
    ("api", "version_index"), [(api, version_index) for api in sorted(APIS) for version_index in (0, -1)]
)
async def test_every_api_responds_with_an_error_if_its_changes_cannot_be_stored(
    api: str, version_index: int, tmp_path: Path, disk: Disk
) -> None:
    reports: list[str] = []
    async with broker_client(reports=reports, data=tmp_path, **(WITH_LOGIN if needs_login(api) else OPTIONS)) as client:
        api_client, real_call, journal = ApiClient(client, "g"), client.__call__, client.broker.cluster.journal
        changes = 0

        async def call_with_full_disk(name: str, version: int, body: Mapping[str, Any]) -> Any:
            nonlocal changes
            before, disk.full = journal.changes, name == api
            response = await real_call(name, version, body)
            changes, disk.full = journal.changes - before, False
            return response

        api_client._client = call_with_full_disk  # type: ignore[assignment]
        response = await api_client.request(api, APIS[api][version_index])
    if changes and api != "Metadata":
        assert error_codes(response) & {CODES[api], Error.COORDINATOR_LOAD_IN_PROGRESS}, response
    elif api in ("Produce", "CreateTopics"):  # these fail before they reach the journal
        assert Error.KAFKA_STORAGE_ERROR in error_codes(response)
    assert [line for line in reports if "connection closed" in line] == []


async def test_outage_and_its_end_are_reported_once(tmp_path: Path, disk: Disk, clock: FakeClock) -> None:
    reports: list[str] = []
    async with broker_client(reports=reports, data=tmp_path, topics={"t": 1}) as client:
        await produce(client, batch())
        disk.full = True
        for _ in range(3):
            assert (await produce(client, batch()))["error_code"] == Error.KAFKA_STORAGE_ERROR
            assert (await find_coordinator(client))["error_code"] == Error.COORDINATOR_NOT_AVAILABLE
        assert (await fetch(client))["error_code"] == Error.NONE
        [outage] = reports
        assert outage.startswith(f"the built-in broker cannot write {tmp_path}/logs/t-0/{0:020d}.log: No space left on")
        assert outage.endswith("; free some space")
        clock.advance(5000)
        disk.full = False
        clock.advance(1000)
        [recovery] = reports[1:]
        assert recovery.startswith(f"the built-in broker can write {tmp_path} again, after 6 s in which ")
        assert (await find_coordinator(client))["error_code"] == Error.NONE
        assert (await produce(client, batch()))["base_offset"] == 1
        disk.full = True
        await produce(client, batch())
        assert len(reports) == 3


async def test_pending_changes_are_stored_when_space_is_free_without_a_new_request(
    tmp_path: Path, disk: Disk, clock: FakeClock
) -> None:
    reports: list[str] = []
    async with broker_client(reports=reports, data=tmp_path, topics={"t": 1}) as client:
        disk.full = True
        assert error_codes(await client("OffsetCommit", 8, offset_commit(5))) == {Error.NOT_COORDINATOR}
        assert not client.broker.cluster.journal.is_stored
        disk.full = False
        clock.advance(2000)
        assert client.broker.cluster.journal.is_stored
        assert b'[\\"g\\", \\"t\\", 0]' in (tmp_path / "journal.jsonl").read_bytes()


async def test_topic_that_cannot_be_stored_is_not_created(tmp_path: Path, disk: Disk) -> None:
    reports: list[str] = []
    async with broker_client(reports=reports, data=tmp_path) as client:
        disk.full = True
        topic = {"name": "made", "num_partitions": 3, "replication_factor": 1}
        assert error_codes(await client("CreateTopics", 5, {"topics": [topic]})) == {Error.KAFKA_STORAGE_ERROR}
        assert (await client("Metadata", 9, {"topics": None}))["topics"] == []
        disk.full = False
        assert error_codes(await client("CreateTopics", 5, {"topics": [topic]})) == {Error.NONE}


def test_repeated_write_failures_are_one_outage(tmp_path: Path) -> None:
    reports: list[str] = []
    clock = FakeClock()
    health = StorageHealth(tmp_path, reports.append, clock)
    for _ in range(20):
        health.record_failure(tmp_path / "one", OSError(5, "Input/output error"))
        clock.advance(900)
    assert len(reports) == 1
    assert not list(tmp_path.iterdir())
    clock.advance(3000)
    assert len(reports) == 2


@pytest.mark.slow
def test_pending_entries_cost_little_while_the_disk_stays_full(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = FileJournal(tmp_path, fsync=False)
    disk.full = True
    line_count = 0
    real_line = journal_module._line

    def count_line(*args: Any) -> bytes:
        nonlocal line_count
        line_count += 1
        return real_line(*args)

    monkeypatch.setattr(journal_module, "_line", count_line)
    for number in range(4000):
        journal.put("t", str(number % 2000), {"n": number})
    assert line_count < 40_000
    disk.full = False
    assert journal.catch_up()
    journal.close()
    assert dict(FileJournal(tmp_path, fsync=False).entries("t")) == {str(n - 2000): {"n": n} for n in range(2000, 4000)}


async def find_coordinator(client: SocketClient) -> Any:
    """Look up the coordinator of a group."""
    return await client("FindCoordinator", 0, {"key": "g"})


def offset_commit(offset: int) -> dict[str, Any]:
    """Return an offset commit for ``t-0`` without a group generation."""
    commit = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [commit]}]
    return {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The mount point of a file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    mounted = tmp_path / "disk"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(mounted)]
    result = subprocess.run(mount, capture_output=True, text=True)
    if result.returncode:
        pytest.skip(f"cannot mount here: {result.stderr.strip()}")
    yield mounted
    subprocess.run(["umount", mounted], check=True)


@pytest.mark.root
async def test_acknowledged_data_survives_a_full_disk_a_kill_and_a_restart(small_disk: Path, tmp_path: Path) -> None:
    filler, data, output_path = small_disk / "filler", small_disk / "data", tmp_path / "printed"
    filler.write_bytes(bytes(500_000))
    process, port = await start_broker_process(data, printed=output_path)
    client = SocketClient(RemoteBroker(port), "load")  # type: ignore[arg-type]
    acknowledged, refused, committed = 0, 0, 0
    try:
        while refused < 50:
            response = await produce(client, batch(size=3000))
            acknowledged += response["error_code"] == Error.NONE
            refused += response["error_code"] == Error.KAFKA_STORAGE_ERROR
            if error_codes(await client("OffsetCommit", 8, offset_commit(acknowledged))) == {Error.NONE}:
                committed = acknowledged
        assert acknowledged > 50
        assert len(offsets(await fetch(client))) == acknowledged
        filler.unlink()
        while (await produce(client, batch(size=3000)))["error_code"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    finally:
        process.kill()
        await process.wait()
        (await client.streams(1))[1].transport.abort()
    assert output_path.read_text().count("No space left on device") == 1
    async with broker_client(data=data) as restarted:
        assert log_of(restarted).end_offset == acknowledged + 1
        assert restarted.broker.cluster.part(Offsets).for_group("g")["t", 0].offset >= committed > 50
