from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from dissectors.records import encode
from dissectors.wire.layout import NULL_UUID
from kproxy.broker.configs import Configs
from kproxy.broker.errors import Error
from kproxy.broker.topics import Topics
from tests.kproxy.broker.data_requests import batch, fetch, offsets, produce, produce_request, records
from tests.kproxy.broker.log.sample_logs import produced_batch
from tests.kproxy.broker.socket_client import SocketClient, broker_client


def set_configs(client: SocketClient, topic: str, **configs: str) -> None:
    values = {key.replace("_", "."): value for key, value in configs.items()}
    client.broker.cluster.part(Configs).set("topic", topic, values)


@pytest.mark.parametrize("version", range(14))
async def test_produce_appends_at_the_next_offset_in_every_version(version: int) -> None:
    data = batch(2) if version >= 3 else encode([{"magic": min(version, 1), "records": [{"value": b"v"}] * 2}])
    async with broker_client(topics={"t": 1}) as client:
        assert (await produce(client, data, version=version))["base_offset"] == 0
        response = await produce(client, data, version=version)
        assert (response["error_code"], response["base_offset"]) == (Error.NONE, 2)
        assert response.get("log_append_time_ms", -1) == -1
        assert response.get("log_start_offset", 0) == 0
        assert offsets(await fetch(client)) == [0, 1, 2, 3]


async def test_each_partition_gets_its_own_error() -> None:
    async with broker_client(topics={"t": 2, "u": 1}) as client:
        partitions = [{"index": index, "records": batch()} for index in (0, 1, 2, -1)]
        topics = [{"name": name, "partition_data": partitions} for name in ("t", "none", "u")]
        body = await client("Produce", 9, {"acks": -1, "timeout_ms": 0, "topic_data": topics})
    assert [
        (topic["name"], [(response["index"], response["error_code"]) for response in topic["partition_responses"]])
        for topic in body["responses"]
    ] == [
        ("t", [(0, 0), (1, 0), (2, 3), (-1, 3)]),
        ("none", [(0, 3), (1, 3), (2, 3), (-1, 3)]),
        ("u", [(0, 0), (1, 3), (2, 3), (-1, 3)]),
    ]


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_rejects_invalid_acks(acks: int) -> None:
    async with broker_client(topics={"t": 1}) as client:
        assert (await produce(client, batch(), acks=acks))["error_code"] == Error.INVALID_REQUIRED_ACKS


async def test_produce_with_acks_0_gets_no_response() -> None:
    async with broker_client(topics={"t": 1}) as client:
        await client.send("Produce", 9, produce_request(client, batch(3), acks=0))
        assert offsets(await fetch(client)) == [0, 1, 2]


async def test_error_with_acks_0_closes_the_connection() -> None:
    async with broker_client(topics={"t": 1}) as client:
        await client.send("Produce", 9, produce_request(client, batch(), acks=0, partition=4))
        with pytest.raises(asyncio.IncompleteReadError):
            await client.receive("Produce", 9)


@pytest.mark.parametrize(
    ("version", "data", "error"),
    [
        (9, b"", Error.INVALID_RECORD),
        (9, None, Error.INVALID_RECORD),
        (9, produced_batch() + produced_batch(), Error.INVALID_RECORD),
        (9, produced_batch()[:-1], Error.INVALID_RECORD),
        (9, encode([{"magic": 1, "records": [{"value": b"v"}]}]), Error.INVALID_RECORD),
        (6, produced_batch(compression="zstd"), Error.UNSUPPORTED_COMPRESSION_TYPE),
        (9, produced_batch() + bytes(17), Error.CORRUPT_MESSAGE),
        (2, None, Error.NONE),
    ],
    ids=["empty", "null", "two", "cut off", "format 1", "zstd before v7", "zeros behind", "null before v3"],
)
async def test_allowed_batches_depend_on_the_version(version: int, data: bytes | None, error: Error) -> None:
    async with broker_client(topics={"t": 1}) as client:
        response = await produce(client, data, version=version)
    assert (response["error_code"], response["base_offset"]) == (error, -1)


async def test_response_lists_the_rejected_records() -> None:
    async with broker_client(topics={"t": 1}) as client:
        set_configs(client, "t", cleanup_policy="compact")
        response = await produce(client, batch(2, key=None))
        old_response = await produce(client, batch(2, key=None), version=7)
    assert response["error_code"] == old_response["error_code"] == Error.INVALID_RECORD
    assert [error["batch_index"] for error in response["record_errors"]] == [0, 1]
    assert response["error_message"].startswith("One or more records have been rejected due to 2 record errors")


async def test_response_has_the_log_append_time() -> None:
    async with broker_client(topics={"t": 1}) as client:
        set_configs(client, "t", message_timestamp_type="LogAppendTime")
        response = await produce(client, batch(2))
        [first, second] = records(await fetch(client))
    assert response["log_append_time_ms"] == first["timestamp"] == second["timestamp"] > 0


async def test_rejects_records_if_too_few_replicas_are_in_sync() -> None:
    async with broker_client(brokers=2, topics={"t": 1}) as client:
        set_configs(client, "t", min_insync_replicas="2")
        # With fewer replicas than min.insync.replicas, all of them suffice.
        assert (await produce(client, batch()))["error_code"] == Error.NONE
        client.broker.move_leader("t", 0, 2)
        client.broker.move_leader("t", 0, 1)
        await client.broker.stop_node(2)
        assert (await produce(client, batch()))["error_code"] == Error.NOT_ENOUGH_REPLICAS
        assert (await produce(client, batch(), acks=1))["error_code"] == Error.NONE


@pytest.mark.parametrize("version", [9, 10, 13])
async def test_response_names_the_current_leader(version: int) -> None:
    async with broker_client(brokers=2, topics={"t": 1}) as client:
        client.broker.move_leader("t", 0, 2)
        response = await produce(client, batch(), version=version)
        assert response["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
        if version >= 10:
            assert response["current_leader"] == {"leader_id": 2, "leader_epoch": 1}
            [endpoint] = response["node_endpoints"]
            assert (endpoint["node_id"], endpoint["port"]) == (2, client.broker.ports[1])
        assert (await produce(client, batch(), version=version, node=2))["error_code"] == Error.NONE


@pytest.mark.parametrize("unknown", ["A" * 21 + "Q", NULL_UUID])
async def test_rejects_an_unknown_topic_id(unknown: str) -> None:
    async with broker_client(topics={"t": 1}) as client:
        data = [{"topic_id": unknown, "partition_data": [{"index": 0, "records": batch()}]}]
        body = await client("Produce", 13, {"acks": -1, "timeout_ms": 0, "topic_data": data})
    [topic] = body["responses"]
    assert topic["topic_id"] == unknown
    assert topic["partition_responses"][0]["error_code"] == Error.UNKNOWN_TOPIC_ID


async def test_rejects_produce_to_internal_topics() -> None:
    async with broker_client() as client:
        client.broker.cluster.part(Topics).create("__state", [[1]], internal=True)
        assert (await produce(client, batch(), "__state"))["error_code"] == Error.INVALID_TOPIC_EXCEPTION


async def test_unsynced_records_are_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    reports: list[str] = []
    async with broker_client(reports=reports, topics={"t": 1}, data=tmp_path, fsync=True) as client:
        assert (await produce(client, batch()))["error_code"] == Error.NONE
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            assert (await produce(client, batch(), acks=1))["error_code"] == Error.NONE
            response = await produce(client, batch())
        assert (response["error_code"], response["base_offset"]) == (Error.KAFKA_STORAGE_ERROR, -1)
        assert (await produce(client, batch(), acks=1))["error_code"] == Error.KAFKA_STORAGE_ERROR
    [report] = reports
    assert f"cannot write {tmp_path}/logs/t-0/00000000000000000000.log: Input/output error" in report


async def test_rejects_a_transactional_batch_without_a_transaction() -> None:
    data = batch(producer_id=4711, producer_epoch=0, base_sequence=0, is_transactional=True)
    async with broker_client(topics={"t": 1}) as client:
        response = await produce(client, data)
        assert response["error_code"] == Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (await produce(client, data, transactional_id="x"))["error_code"] == Error.INVALID_PRODUCER_ID_MAPPING
        assert offsets(await fetch(client)) == []


@pytest.mark.parametrize("size", [1, 900_000])
async def test_pipelined_requests_get_responses_in_order(size: int) -> None:
    async with broker_client(topics={"t": 1}) as client:
        for _ in range(20):
            await client.send("Produce", 9, produce_request(client, batch(size=size)))
        bodies = [await client.receive("Produce", 9) for _ in range(20)]
    assert [body["responses"][0]["partition_responses"][0]["base_offset"] for body in bodies] == list(range(20))
