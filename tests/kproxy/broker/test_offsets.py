"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.records import encode
from kproxy.broker.configs import Configs
from kproxy.broker.errors import Error
from tests.kproxy.broker.data_requests import append_transactional, batch, fetch, log_of, now, offsets, produce
from tests.kproxy.broker.socket_client import SocketClient, broker_client


async def list_offset(client: SocketClient, timestamp: int, *, version: int = 9, node: int = 1, **values: Any) -> Any:
    """Return the ListOffsets response for ``t-0``, or for the partition in `values`."""
    partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1, "max_num_offsets": 5}
    partition |= {name: values.pop(name) for name in list(values) if name in partition}
    topics = [{"name": values.pop("topic", "t"), "partitions": [partition]}]
    body = await client("ListOffsets", version, {"replica_id": -1, "topics": topics} | values, node=node)
    return body["topics"][0]["partitions"][0]


async def delete_records(client: SocketClient, offset: int, topic: str = "t", partition: int = 0) -> tuple[int, int]:
    topics = [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
    body = await client("DeleteRecords", 2, {"timeout_ms": 1000, "topics": topics})
    [result] = body["topics"][0]["partitions"]
    return result["error_code"], result["low_watermark"]


async def epoch_end(client: SocketClient, epoch: int, *, version: int = 4, current: int = -1, node: int = 1) -> Any:
    partition = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
    topics = [{"topic": "t", "partitions": [partition]}]
    body = await client("OffsetForLeaderEpoch", version, {"replica_id": -1, "topics": topics}, node=node)
    [result] = body["topics"][0]["partitions"]
    return result["error_code"], result.get("leader_epoch"), result["end_offset"]


@pytest.mark.parametrize("version", range(12))
async def test_lists_the_first_and_the_last_offset(version: int) -> None:
    async with broker_client(topics={"t": 1}) as client:
        await produce(client, batch(5))
        latest = await list_offset(client, -1, version=version)
        earliest = await list_offset(client, -2, version=version)
    if version == 0:
        assert (latest["old_style_offsets"], earliest["old_style_offsets"]) == ([5, 0], [0])
    else:
        assert (latest["offset"], earliest["offset"]) == (5, 0)
        assert latest["timestamp"] == earliest["timestamp"] == -1


@pytest.mark.parametrize(
    ("special", "since", "offset"),
    [(-3, 7, 1), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1), (-7, 99, -1), (-(2**63), 99, -1)],
)
@pytest.mark.parametrize("version", range(1, 12))
async def test_special_timestamps_depend_on_the_version(version: int, special: int, since: int, offset: int) -> None:
    start = now()
    sent_records = [{"value": b"", "timestamp": start + delay} for delay in (0, 9, 5)]
    async with broker_client(topics={"t": 1}) as client:
        await produce(client, encode([{"records": sent_records}]))
        response = await list_offset(client, special, version=version)
    if version < since:
        assert (response["error_code"], response["offset"]) == (Error.UNSUPPORTED_VERSION, -1)
    else:
        assert (response["error_code"], response["offset"]) == (Error.NONE, offset)
        assert response["timestamp"] == (start + 9 if special == -3 else -1)


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
async def test_finds_the_record_at_a_timestamp(codec: str) -> None:
    start = now()
    sent_records = [{"value": b"", "timestamp": start + delay} for delay in (0, 10, 20)]
    async with broker_client(topics={"t": 1}) as client:
        await produce(client, encode([{"records": sent_records, "compression": codec}]))
        results = [await list_offset(client, start + delay) for delay in (-99, 0, 1, 10, 20, 21)]
    assert [(result["offset"], result["timestamp"]) for result in results] == [
        (0, start), (0, start), (1, start + 10), (1, start + 10), (2, start + 20), (-1, -1),
    ]  # fmt: skip
    assert all(result["error_code"] == Error.NONE for result in results)


async def test_empty_log_has_no_timestamps() -> None:
    async with broker_client(topics={"t": 1}) as client:
        assert (await list_offset(client, 0))["offset"] == (await list_offset(client, -3))["offset"] == -1
        assert (await list_offset(client, -1, version=0))["old_style_offsets"] == [0]


async def test_version_0_lists_offsets_of_segments() -> None:
    async with broker_client(topics={"t": 1}) as client:
        await produce(client, batch(5))
        assert (await list_offset(client, now() + 99, version=0))["old_style_offsets"] == [5, 0]
        assert (await list_offset(client, 5, version=0))["old_style_offsets"] == []
        assert (await list_offset(client, -1, version=0, max_num_offsets=1))["old_style_offsets"] == [5]
        assert (await list_offset(client, -1, version=0, max_num_offsets=-1))["old_style_offsets"] == []


async def test_read_committed_stops_at_open_transactions() -> None:
    async with broker_client(topics={"t": 1}) as client:
        await produce(client, batch(3))
        append_transactional(client, 7, count=2)
        assert (await list_offset(client, -1, isolation_level=1))["offset"] == 3
        assert (await list_offset(client, -1, isolation_level=0))["offset"] == 5
        last_timestamp = (await list_offset(client, -3, isolation_level=0))["timestamp"]
        assert (await list_offset(client, last_timestamp + 1, isolation_level=1))["offset"] == -1
        log_of(client).append_marker(7, 0, 0, commit=True)
        assert (await list_offset(client, -1, isolation_level=1))["offset"] == 6


async def test_list_offsets_rejects_invalid_requests() -> None:
    async with broker_client(brokers=2, topics={"t": 1}) as client:
        assert (await list_offset(client, -1, topic="none"))["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await list_offset(client, -1, partition_index=7))["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await list_offset(client, -1, current_leader_epoch=7))["error_code"] == Error.UNKNOWN_LEADER_EPOCH
        assert (await list_offset(client, -1, node=2))["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
        duplicates = [{"partition_index": 0, "timestamp": -1}] * 2
        body = await client("ListOffsets", 5, {"replica_id": -1, "topics": [{"name": "t", "partitions": duplicates}]})
    assert [partition["error_code"] for partition in body["topics"][0]["partitions"]] == [Error.INVALID_REQUEST] * 2


@pytest.mark.parametrize("version", range(5))
async def test_returns_the_end_offset_of_an_epoch(version: int) -> None:
    async with broker_client(brokers=2, topics={"t": 1}) as client:
        await produce(client, batch(3))
        client.broker.move_leader("t", 0, 2)
        await produce(client, batch(2), node=2)
        has_leader_epoch = version >= 1
        assert await epoch_end(client, 0, version=version, node=2) == (Error.NONE, 0 if has_leader_epoch else None, 3)
        assert await epoch_end(client, 1, version=version, node=2) == (Error.NONE, 1 if has_leader_epoch else None, 5)
        assert await epoch_end(client, 2, version=version, node=2) == (Error.NONE, -1 if has_leader_epoch else None, -1)


async def test_offset_for_leader_epoch_rejects_invalid_requests() -> None:
    async with broker_client(brokers=2, topics={"t": 1}) as client:
        assert await epoch_end(client, 0, node=2) == (Error.NOT_LEADER_OR_FOLLOWER, -1, -1)
        assert await epoch_end(client, 0, current=4) == (Error.UNKNOWN_LEADER_EPOCH, -1, -1)
        client.broker.move_leader("t", 0, 2)
        client.broker.move_leader("t", 0, 1)
        assert await epoch_end(client, 0, current=0) == (Error.FENCED_LEADER_EPOCH, -1, -1)


async def test_delete_records_moves_the_start_offset() -> None:
    async with broker_client(topics={"t": 1}) as client:
        await produce(client, batch(5))
        await produce(client, batch(5))
        assert await delete_records(client, 3) == (Error.NONE, 3)
        assert await delete_records(client, 1) == (Error.NONE, 3)
        assert (await fetch(client, offset=2))["error_code"] == Error.OFFSET_OUT_OF_RANGE
        response = await fetch(client, offset=3)
        assert (response["log_start_offset"], offsets(response)) == (3, list(range(10)))
        assert (await list_offset(client, -2))["offset"] == 3
        assert await delete_records(client, -1) == (Error.NONE, 10)
        assert (await list_offset(client, -2))["offset"] == 10
        assert (await produce(client, batch()))["base_offset"] == 10


async def test_delete_records_rejects_invalid_requests() -> None:
    async with broker_client(topics={"t": 1, "compacted": 1}) as client:
        client.broker.cluster.part(Configs).set("topic", "compacted", {"cleanup.policy": "compact"})
        assert await delete_records(client, 1) == (Error.OFFSET_OUT_OF_RANGE, -1)
        assert await delete_records(client, -2) == (Error.OFFSET_OUT_OF_RANGE, -1)
        assert await delete_records(client, 0, "none") == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert await delete_records(client, 0, "t", 9) == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert await delete_records(client, 0, "compacted") == (Error.POLICY_VIOLATION, -1)
