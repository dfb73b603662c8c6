"""SIGKILL in the middle of a load: what was acknowledged with acks=all is there after a restart."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from dissectors.records import decode
from kproxy.broker.errors import Error
from tests.kproxy.broker.log.sample_logs import sent
from tests.kproxy.broker.socket_client import Asking, asked
from tests.kproxy.broker.storage.broker_process import Elsewhere, served_elsewhere

_ACKNOWLEDGED = 200


@pytest.mark.parametrize("fsync", ["fsync", "no fsync"])
async def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path, fsync: str) -> None:
    process, port = await served_elsewhere(tmp_path / "data", fsync=fsync == "fsync")
    acknowledged: dict[int, list[tuple[int, int]]] = {0: [], 1: []}

    async def load(partition: int) -> None:
        ask, number = Asking(Elsewhere(port), "load"), 0  # type: ignore[arg-type]
        while True:
            number += 1
            try:
                body = await ask("Produce", 9, produced(partition, number))
            except (ConnectionError, asyncio.IncompleteReadError):
                (_, writer) = await ask.streams(1)
                writer.transport.abort()
                return
            [answer] = body["responses"][0]["partition_responses"]
            assert answer["error_code"] == Error.NONE
            acknowledged[partition].append((answer["base_offset"], number))
            if sum(map(len, acknowledged.values())) == _ACKNOWLEDGED:
                os.kill(process.pid, signal.SIGKILL)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(load(0))
        tasks.create_task(load(1))
    assert await process.wait() == -signal.SIGKILL
    assert min(map(len, acknowledged.values())) > 10

    async with asked(data=tmp_path / "data") as ask:
        for partition, answers in acknowledged.items():
            found = {record["offset"]: record["value"] for record in await consumed(ask, partition)}
            assert list(found) == list(range(len(found)))
            for offset, number in answers:
                assert found[offset] == b"v" * (number % 500)
            body = await ask("Produce", 9, produced(partition, 1))
            assert body["responses"][0]["partition_responses"][0]["base_offset"] == len(found)


async def test_topics_keep_their_ids_and_leaders_get_a_new_epoch(tmp_path: Path) -> None:
    async with asked(data=tmp_path, topics={"t": 3}, brokers=2) as ask:
        before = (await ask("Metadata", 12, {"topics": None}))["topics"]
        ask.broker.move_leader("t", 0, 2 if before[0]["partitions"][0]["leader_id"] == 1 else 1)
    async with asked(data=tmp_path, brokers=2) as ask:
        after = (await ask("Metadata", 12, {"topics": None}))["topics"]
    assert [(topic["name"], topic["topic_id"]) for topic in after] == [
        (topic["name"], topic["topic_id"]) for topic in before
    ]
    assert [partition["leader_epoch"] for partition in after[0]["partitions"]] == [2, 1, 1]


async def test_a_directory_of_more_brokers_can_be_used_by_fewer(tmp_path: Path) -> None:
    async with asked(data=tmp_path, topics={"t": 3}, brokers=3) as ask:
        assert (await ask("Metadata", 12, {"topics": None}))["topics"]
    async with asked(data=tmp_path) as ask:
        [topic] = (await ask("Metadata", 12, {"topics": None}))["topics"]
    assert [partition["leader_id"] for partition in topic["partitions"]] == [1, 1, 1]


async def test_what_begins_anew_is_empty(tmp_path: Path) -> None:
    async with asked(data=tmp_path, topics={"t": 1}) as ask:
        await ask("Produce", 9, produced(0, 5))
        await ask("DeleteTopics", 5, {"topic_names": ["t"], "timeout_ms": 1000})
    assert list((tmp_path / "logs").iterdir()) == []
    async with asked(data=tmp_path, topics={"t": 1}) as ask:
        assert await consumed(ask, 0) == []


def produced(partition: int, number: int) -> dict[str, object]:
    """A request with one record, whose size tells which it is."""
    data = {"index": partition, "records": sent(at=int(time.time() * 1000), size=number % 500)}
    return {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": "t", "partition_data": [data]}]}


async def consumed(ask: Asking, partition: int) -> list[dict[str, object]]:
    """Every record of a partition."""
    wanted = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 30}
    body = await ask("Fetch", 12, {"max_bytes": 1 << 30, "topics": [{"topic": "t", "partitions": [wanted]}]})
    [answer] = body["responses"][0]["partitions"]
    assert answer["error_code"] == Error.NONE
    return [record for batch in decode(answer["records"]) for record in batch["records"]]
