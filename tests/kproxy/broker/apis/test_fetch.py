from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from dissectors.records import decode
from kproxy.broker.errors import Error
from kproxy.broker.topics import Topics
from tests.kproxy.broker.data_requests import (
    append_transactional,
    batch,
    fetch,
    fetch_request,
    log_of,
    offsets,
    produce,
    topic_id,
)
from tests.kproxy.broker.socket_client import SocketClient, broker_client


@pytest.mark.parametrize("version", range(19))
async def test_fetch_works_in_every_version(version: int) -> None:
    async with broker_client(topics={"t": 1}) as client:
        for _ in range(3):
            await produce(client, batch(2))
        response = await fetch(client, offset=3, version=version)
    assert (response["error_code"], response["high_watermark"]) == (Error.NONE, 6)
    assert response.get("log_start_offset", 0) == 0
    assert offsets(response) == ([2, 3, 4, 5] if version >= 4 else [3, 4, 5])
    assert {message_set["magic"] for message_set in decode(response["records"])} == {
        0 if version < 2 else 1 if version < 4 else 2
    }


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("version", [0, 2, 3, 4, 12])
async def test_every_version_reads_every_codec_except_zstd_before_version_4(version: int, codec: str) -> None:
    async with broker_client(topics={"t": 1}) as client:
        await produce(client, batch(3, compression=codec))
        response = await fetch(client, version=version)
    if codec == "zstd" and version < 4:
        assert response["error_code"] == Error.UNSUPPORTED_COMPRESSION_TYPE
    else:
        assert offsets(response) == [0, 1, 2]


async def test_fetch_returns_at_least_one_batch_however_large_it_is() -> None:
    async with broker_client(topics={"t": 2}) as client:
        for _ in range(2):
            await produce(client, batch(size=1000))
            await produce(client, batch(size=1000), partition=1)
        assert offsets(await fetch(client, partition_max_bytes=1)) == [0]
        assert offsets(await fetch(client, max_bytes=1)) == [0]
        assert offsets(await fetch(client, max_bytes=-5, partition_max_bytes=-5)) == [0]
        partitions = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in (0, 1)]
        body = fetch_request(client, max_bytes=1500) | {"topics": [{"topic": "t", "partitions": partitions}]}
        response = await client("Fetch", 12, body)
    assert [offsets(partition) for partition in response["responses"][0]["partitions"]] == [[0], []]


@pytest.mark.parametrize("version", [0, 2])
async def test_versions_before_3_truncate_a_large_message(version: int) -> None:
    async with broker_client(topics={"t": 1}) as client:
        await produce(client, batch(size=1000))
        response = await fetch(client, version=version, partition_max_bytes=100)
        assert len(response["records"]) == 100
        assert offsets(response) == []
        assert (await fetch(client, version=3, partition_max_bytes=100))["records"]


async def test_fetch_waits_for_min_bytes() -> None:
    async with broker_client(topics={"t": 1}) as client:
        writer = client.second_client()
        size = len(batch(size=1000))
        pending_fetch = asyncio.ensure_future(fetch(client, max_wait_ms=60_000, min_bytes=2 * size))
        for _ in range(2):
            await asyncio.sleep(0.05)
            assert not pending_fetch.done()
            await produce(writer, batch(size=1000))
        assert offsets(await asyncio.wait_for(pending_fetch, 10)) == [0, 1]
        await writer.hang_up()


async def test_fetch_waits_no_longer_than_max_wait_ms() -> None:
    async with broker_client(topics={"t": 1}) as client:
        await produce(client, batch())
        started_at = time.monotonic()
        assert offsets(await fetch(client, max_wait_ms=200, min_bytes=1 << 30, max_bytes=1 << 30)) == [0]
        assert 0.19 < time.monotonic() - started_at < 5
        assert offsets(await fetch(client, max_wait_ms=-7, min_bytes=1 << 30)) == [0]


async def move_leader(client: SocketClient) -> None:
    client.broker.move_leader("t", 0, 2)


async def delete_topic(client: SocketClient) -> None:
    topics = client.broker.cluster.part(Topics)
    topic = topics.by_name("t")
    assert topic is not None
    topics.delete(topic)


@pytest.mark.parametrize(
    ("change", "error"), [(move_leader, Error.FENCED_LEADER_EPOCH), (delete_topic, Error.UNKNOWN_TOPIC_OR_PARTITION)]
)
async def test_pending_fetch_ends_when_the_leader_changes_or_the_topic_is_deleted(change: Any, error: Error) -> None:
    async with broker_client(brokers=2, topics={"t": 1}) as client:
        pending_fetch = asyncio.ensure_future(fetch(client, max_wait_ms=60_000, current_leader_epoch=0))
        await asyncio.sleep(0.05)
        assert not pending_fetch.done()
        await change(client)
        response = await asyncio.wait_for(pending_fetch, 10)
    assert response["error_code"] == error
    assert (response["high_watermark"], response["records"]) == (-1, b"")


async def test_disconnect_cancels_the_pending_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.broker.connection._LINGER_S", 0.05)
    async with broker_client(topics={"t": 1}) as client:
        await client.send("Fetch", 12, fetch_request(client, max_wait_ms=60_000))
        waiting_futures = log_of(client).changed._waiting
        while not waiting_futures:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await client.hang_up()
        async with asyncio.timeout(20):
            while waiting_futures:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("offset", [-1, 3, 2**62])
async def test_fetch_rejects_offsets_out_of_range(offset: int) -> None:
    async with broker_client(topics={"t": 1}) as client:
        await produce(client, batch(2))
        assert (await fetch(client, offset=offset, max_wait_ms=60_000))["error_code"] == Error.OFFSET_OUT_OF_RANGE
        assert (await fetch(client, offset=2))["error_code"] == Error.NONE


async def test_fetch_requires_a_leader_or_follower_and_the_current_epoch() -> None:
    async with broker_client(brokers=3, topics={"t": 1}, configs={"default.replication.factor": "1"}) as client:
        client.broker.move_leader("t", 0, 2)
        assert (await fetch(client, node=3))["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
        assert (await fetch(client, node=1))["error_code"] == Error.NONE  # a follower, KIP-392
        assert (await fetch(client, node=1, version=10))["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
        assert (await fetch(client, node=2, current_leader_epoch=0))["error_code"] == Error.FENCED_LEADER_EPOCH
        assert (await fetch(client, node=2, current_leader_epoch=2))["error_code"] == Error.UNKNOWN_LEADER_EPOCH
        response = await fetch(client, node=3, version=16)
    assert response["current_leader"] == {"leader_id": 2, "leader_epoch": 1}
    assert [endpoint["node_id"] for endpoint in response["node_endpoints"]] == [2]


async def test_rejects_fetches_from_replicas() -> None:
    async with broker_client(topics={"t": 1}) as client:
        response = await fetch(client, replica_id=1, max_wait_ms=60_000)
        newer_response = await fetch(client, version=15, replica_state={"replica_id": 1}, max_wait_ms=60_000)
        assert response["error_code"] == newer_response["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
        assert (await fetch(client, replica_id=-2))["error_code"] == Error.NONE


async def test_unknown_topic_fails_at_once_unless_other_topics_wait() -> None:
    async with broker_client(topics={"t": 1}) as client:
        single_topic_response = await fetch(client, "none", max_wait_ms=60_000)
        assert single_topic_response["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await fetch(client, partition=5, max_wait_ms=60_000))["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 9}]
        topics = [{"topic_id": id_, "partitions": partitions} for id_ in (topic_id(client, "t"), "A" * 21 + "Q")]
        started_at = time.monotonic()
        body = await client("Fetch", 13, fetch_request(client, version=13, max_wait_ms=150) | {"topics": topics})
        assert time.monotonic() - started_at > 0.14
    errors = [topic["partitions"][0]["error_code"] for topic in body["responses"]]
    assert errors == [Error.NONE, Error.UNKNOWN_TOPIC_ID]


async def test_read_committed_stops_at_open_transactions_and_names_aborted_ones() -> None:
    async with broker_client(topics={"t": 1}) as client:
        for producer in (1, 2):
            await produce(client, batch())  # not part of any transaction
            append_transactional(client, producer)
        response = await fetch(client, isolation_level=1)
        assert offsets(response) == [0]
        assert (response["last_stable_offset"], response["high_watermark"]) == (1, 6)
        assert response["aborted_transactions"] == []
        assert offsets(await fetch(client, isolation_level=0)) == list(range(6))
        pending_fetch = asyncio.ensure_future(fetch(client, offset=1, isolation_level=1, max_wait_ms=60_000))
        await asyncio.sleep(0.05)
        assert not pending_fetch.done()
        log_of(client).append_marker(1, 0, 0, commit=False)
        response = await asyncio.wait_for(pending_fetch, 10)
        assert offsets(response) == [1, 2, 3]
        assert response["aborted_transactions"] == [{"producer_id": 1, "first_offset": 1}]
        log_of(client).append_marker(2, 0, 0, commit=True)
        response = await fetch(client, offset=3, isolation_level=1)
        assert offsets(response) == [3, 4, 5]
        assert response["aborted_transactions"] == [{"producer_id": 1, "first_offset": 1}]
        assert (await fetch(client, offset=7, isolation_level=1))["aborted_transactions"] == []
        assert (await fetch(client))["aborted_transactions"] is None


@pytest.mark.parametrize("version", [7, 12, 13, 18])
async def test_fetch_session_returns_only_changed_partitions(version: int) -> None:
    async with broker_client(topics={"t": 1, "u": 1}) as client:
        await produce(client, batch())
        first = await client("Fetch", version, fetch_request(client, version=version, session_epoch=0))
        session_id = first["session_id"]
        assert session_id > 0
        assert len(first["responses"]) == 1
        second = await client(
            "Fetch", version, session_request(session_id, 1, fetch_request(client, offset=1, version=version)["topics"])
        )
        assert (second["error_code"], second["session_id"], second["responses"]) == (Error.NONE, session_id, [])
        await produce(client, batch())
        third = await client("Fetch", version, session_request(session_id, 2))
        assert offsets(third["responses"][0]["partitions"][0]) == [1]
        wrong_epoch_response = await client("Fetch", version, session_request(session_id, 2))
        assert (wrong_epoch_response["error_code"], wrong_epoch_response["responses"]) == (
            Error.INVALID_FETCH_SESSION_EPOCH,
            [],
        )
        unknown_session_response = await client("Fetch", version, session_request(session_id + 1, 3))
        assert (unknown_session_response["error_code"], unknown_session_response["session_id"]) == (
            Error.FETCH_SESSION_ID_NOT_FOUND,
            0,
        )


def session_request(session_id: int, epoch: int, topics: Any = ()) -> dict[str, Any]:
    """Return the next request in a session."""
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": list(topics),
    }
