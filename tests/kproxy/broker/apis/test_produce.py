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
from tests.kproxy.broker.data_asked import batch, fetch, offsets, produce, produced, records
from tests.kproxy.broker.log.sample_logs import sent
from tests.kproxy.broker.socket_client import Asking, asked


def set_configs(ask: Asking, topic: str, **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    ask.broker.cluster.part(Configs).set("topic", topic, named)


@pytest.mark.parametrize("version", range(14))
async def test_appends_in_every_version(version: int) -> None:
    data = batch(2) if version >= 3 else encode([{"magic": min(version, 1), "records": [{"value": b"v"}] * 2}])
    async with asked(topics={"t": 1}) as ask:
        assert (await produce(ask, data, version=version))["base_offset"] == 0
        answer = await produce(ask, data, version=version)
        assert (answer["error_code"], answer["base_offset"]) == (Error.NONE, 2)
        assert answer.get("log_append_time_ms", -1) == -1
        assert answer.get("log_start_offset", 0) == 0
        assert offsets(await fetch(ask)) == [0, 1, 2, 3]


async def test_partitions_are_independent() -> None:
    async with asked(topics={"t": 2, "u": 1}) as ask:
        partitions = [{"index": index, "records": batch()} for index in (0, 1, 2, -1)]
        topics = [{"name": name, "partition_data": partitions} for name in ("t", "none", "u")]
        body = await ask("Produce", 9, {"acks": -1, "timeout_ms": 0, "topic_data": topics})
    assert [
        (topic["name"], [(response["index"], response["error_code"]) for response in topic["partition_responses"]])
        for topic in body["responses"]
    ] == [
        ("t", [(0, 0), (1, 0), (2, 3), (-1, 3)]),
        ("none", [(0, 3), (1, 3), (2, 3), (-1, 3)]),
        ("u", [(0, 0), (1, 3), (2, 3), (-1, 3)]),
    ]


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_other_acks_are_refused(acks: int) -> None:
    async with asked(topics={"t": 1}) as ask:
        assert (await produce(ask, batch(), acks=acks))["error_code"] == Error.INVALID_REQUIRED_ACKS


async def test_without_acks_nothing_is_answered() -> None:
    async with asked(topics={"t": 1}) as ask:
        await ask.send("Produce", 9, produced(ask, batch(3), acks=0))
        assert offsets(await fetch(ask)) == [0, 1, 2]


async def test_without_acks_an_error_ends_the_connection() -> None:
    async with asked(topics={"t": 1}) as ask:
        await ask.send("Produce", 9, produced(ask, batch(), acks=0, partition=4))
        with pytest.raises(asyncio.IncompleteReadError):
            await ask.receive("Produce", 9)


@pytest.mark.parametrize(
    ("version", "data", "error"),
    [
        (9, b"", Error.INVALID_RECORD),
        (9, None, Error.INVALID_RECORD),
        (9, sent() + sent(), Error.INVALID_RECORD),
        (9, sent()[:-1], Error.INVALID_RECORD),
        (9, encode([{"magic": 1, "records": [{"value": b"v"}]}]), Error.INVALID_RECORD),
        (6, sent(compression="zstd"), Error.UNSUPPORTED_COMPRESSION_TYPE),
        (9, sent() + bytes(17), Error.CORRUPT_MESSAGE),
        (2, None, Error.NONE),
    ],
    ids=["empty", "null", "two", "cut off", "format 1", "zstd before v7", "zeros behind", "null before v3"],
)
async def test_what_a_version_may_bring(version: int, data: bytes | None, error: Error) -> None:
    async with asked(topics={"t": 1}) as ask:
        answer = await produce(ask, data, version=version)
    assert (answer["error_code"], answer["base_offset"]) == (error, -1)


async def test_records_that_are_refused_are_named() -> None:
    async with asked(topics={"t": 1}) as ask:
        set_configs(ask, "t", cleanup_policy="compact")
        answer = await produce(ask, batch(2, key=None))
        old = await produce(ask, batch(2, key=None), version=7)
    assert answer["error_code"] == old["error_code"] == Error.INVALID_RECORD
    assert [error["batch_index"] for error in answer["record_errors"]] == [0, 1]
    assert answer["error_message"].startswith("One or more records have been rejected due to 2 record errors")


async def test_log_append_time_is_told() -> None:
    async with asked(topics={"t": 1}) as ask:
        set_configs(ask, "t", message_timestamp_type="LogAppendTime")
        answer = await produce(ask, batch(2))
        [first, second] = records(await fetch(ask))
    assert answer["log_append_time_ms"] == first["timestamp"] == second["timestamp"] > 0


async def test_too_few_replicas_in_sync() -> None:
    async with asked(brokers=2, topics={"t": 1}) as ask:
        set_configs(ask, "t", min_insync_replicas="2")
        assert (await produce(ask, batch()))["error_code"] == Error.NONE  # no more are wanted than there are
        ask.broker.move_leader("t", 0, 2)
        ask.broker.move_leader("t", 0, 1)
        await ask.broker.stop_node(2)
        assert (await produce(ask, batch()))["error_code"] == Error.NOT_ENOUGH_REPLICAS
        assert (await produce(ask, batch(), acks=1))["error_code"] == Error.NONE


@pytest.mark.parametrize("version", [9, 10, 13])
async def test_another_leader_is_named(version: int) -> None:
    async with asked(brokers=2, topics={"t": 1}) as ask:
        ask.broker.move_leader("t", 0, 2)
        answer = await produce(ask, batch(), version=version)
        assert answer["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
        if version >= 10:
            assert answer["current_leader"] == {"leader_id": 2, "leader_epoch": 1}
            [endpoint] = answer["node_endpoints"]
            assert (endpoint["node_id"], endpoint["port"]) == (2, ask.broker.ports[1])
        assert (await produce(ask, batch(), version=version, node=2))["error_code"] == Error.NONE


@pytest.mark.parametrize("unknown", ["A" * 21 + "Q", NULL_UUID])
async def test_an_id_that_no_topic_has(unknown: str) -> None:
    async with asked(topics={"t": 1}) as ask:
        data = [{"topic_id": unknown, "partition_data": [{"index": 0, "records": batch()}]}]
        body = await ask("Produce", 13, {"acks": -1, "timeout_ms": 0, "topic_data": data})
    [topic] = body["responses"]
    assert topic["topic_id"] == unknown
    assert topic["partition_responses"][0]["error_code"] == Error.UNKNOWN_TOPIC_ID


async def test_internal_topics_are_not_for_clients() -> None:
    async with asked() as ask:
        ask.broker.cluster.part(Topics).create("__state", [[1]], internal=True)
        assert (await produce(ask, batch(), "__state"))["error_code"] == Error.INVALID_TOPIC_EXCEPTION


async def test_what_may_not_be_on_the_disk_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(fd: int) -> None:
        raise OSError(5, "Input/output error")

    said: list[str] = []
    async with asked(said=said, topics={"t": 1}, data=tmp_path, fsync=True) as ask:
        assert (await produce(ask, batch()))["error_code"] == Error.NONE
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            assert (await produce(ask, batch(), acks=1))["error_code"] == Error.NONE
            answer = await produce(ask, batch())
        assert (answer["error_code"], answer["base_offset"]) == (Error.KAFKA_STORAGE_ERROR, -1)
        assert (await produce(ask, batch(), acks=1))["error_code"] == Error.KAFKA_STORAGE_ERROR
    [sentence] = said
    assert f"cannot write {tmp_path}/logs/t-0/00000000000000000000.log: Input/output error" in sentence


async def test_a_transactional_batch_wants_a_transaction() -> None:
    data = batch(producer_id=4711, producer_epoch=0, base_sequence=0, is_transactional=True)
    async with asked(topics={"t": 1}) as ask:
        answer = await produce(ask, data)
        assert answer["error_code"] == Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (await produce(ask, data, transactional_id="x"))["error_code"] == Error.INVALID_PRODUCER_ID_MAPPING
        assert offsets(await fetch(ask)) == []


@pytest.mark.parametrize("size", [1, 900_000])
async def test_many_requests_at_once_are_answered_in_order(size: int) -> None:
    async with asked(topics={"t": 1}) as ask:
        for _ in range(20):
            await ask.send("Produce", 9, produced(ask, batch(size=size)))
        bodies = [await ask.receive("Produce", 9) for _ in range(20)]
    assert [body["responses"][0]["partition_responses"][0]["base_offset"] for body in bodies] == list(range(20))
