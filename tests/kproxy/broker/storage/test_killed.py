"""SIGKILL under load: records that were acknowledged with acks=all survive the restart."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from dissectors.records import decode
from kproxy.broker.errors import Error
from tests.kproxy.broker.log.sample_logs import produced_batch
from tests.kproxy.broker.socket_client import SocketClient, broker_client
from tests.kproxy.broker.storage.broker_process import RemoteBroker, start_broker_process

_ACKNOWLEDGED = 200


@pytest.mark.slow
@pytest.mark.parametrize("fsync", ["fsync", "no fsync"])
async def test_acknowledged_records_survive_a_kill(tmp_path: Path, fsync: str) -> None:
    process, port = await start_broker_process(tmp_path / "data", fsync=fsync == "fsync")
    acknowledged: dict[int, list[tuple[int, int]]] = {0: [], 1: []}

    async def produce_until_killed(partition: int) -> None:
        client, number = SocketClient(RemoteBroker(port), "load"), 0  # type: ignore[arg-type]
        while True:
            number += 1
            try:
                body = await client("Produce", 9, produce_request(partition, number))
            except (ConnectionError, asyncio.IncompleteReadError):
                (_, writer) = await client.streams(1)
                writer.transport.abort()
                return
            [response] = body["responses"][0]["partition_responses"]
            assert response["error_code"] == Error.NONE
            acknowledged[partition].append((response["base_offset"], number))
            if sum(map(len, acknowledged.values())) == _ACKNOWLEDGED:
                os.kill(process.pid, signal.SIGKILL)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(produce_until_killed(0))
        tasks.create_task(produce_until_killed(1))
    assert await process.wait() == -signal.SIGKILL
    assert min(map(len, acknowledged.values())) > 10

    async with broker_client(data=tmp_path / "data") as client:
        for partition, responses in acknowledged.items():
            values = {record["offset"]: record["value"] for record in await fetch_records(client, partition)}
            assert list(values) == list(range(len(values)))
            for offset, number in responses:
                assert values[offset] == b"v" * (number % 500)
            body = await client("Produce", 9, produce_request(partition, 1))
            assert body["responses"][0]["partition_responses"][0]["base_offset"] == len(values)


async def test_topics_keep_their_ids_and_leaders_get_a_new_epoch(tmp_path: Path) -> None:
    async with broker_client(data=tmp_path, topics={"t": 3}, brokers=2) as client:
        old_topics = (await client("Metadata", 12, {"topics": None}))["topics"]
        client.broker.move_leader("t", 0, 2 if old_topics[0]["partitions"][0]["leader_id"] == 1 else 1)
    async with broker_client(data=tmp_path, brokers=2) as client:
        new_topics = (await client("Metadata", 12, {"topics": None}))["topics"]
    assert [(topic["name"], topic["topic_id"]) for topic in new_topics] == [
        (topic["name"], topic["topic_id"]) for topic in old_topics
    ]
    assert [partition["leader_epoch"] for partition in new_topics[0]["partitions"]] == [2, 1, 1]


async def test_one_broker_can_use_the_directory_of_three(tmp_path: Path) -> None:
    async with broker_client(data=tmp_path, topics={"t": 3}, brokers=3) as client:
        assert (await client("Metadata", 12, {"topics": None}))["topics"]
    async with broker_client(data=tmp_path) as client:
        [topic] = (await client("Metadata", 12, {"topics": None}))["topics"]
    assert [partition["leader_id"] for partition in topic["partitions"]] == [1, 1, 1]


async def test_recreated_topic_is_empty(tmp_path: Path) -> None:
    async with broker_client(data=tmp_path, topics={"t": 1}) as client:
        await client("Produce", 9, produce_request(0, 5))
        await client("DeleteTopics", 5, {"topic_names": ["t"], "timeout_ms": 1000})
    assert list((tmp_path / "logs").iterdir()) == []
    async with broker_client(data=tmp_path, topics={"t": 1}) as client:
        assert await fetch_records(client, 0) == []


def produce_request(partition: int, number: int) -> dict[str, object]:
    """Return a Produce request with one record, whose size identifies it."""
    data = {"index": partition, "records": produced_batch(at=int(time.time() * 1000), size=number % 500)}
    return {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": "t", "partition_data": [data]}]}


async def fetch_records(client: SocketClient, partition: int) -> list[dict[str, object]]:
    """Return every record of a partition."""
    partition_request = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 30}
    body = await client(
        "Fetch", 12, {"max_bytes": 1 << 30, "topics": [{"topic": "t", "partitions": [partition_request]}]}
    )
    [response] = body["responses"][0]["partitions"]
    assert response["error_code"] == Error.NONE
    return [record for batch in decode(response["records"]) for record in batch["records"]]
