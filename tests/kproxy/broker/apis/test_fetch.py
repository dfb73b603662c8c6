from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from dissectors.records import decode
from kproxy.broker.errors import Error
from kproxy.broker.topics import Topics
from tests.kproxy.broker.data_asked import (
    append_transactional,
    batch,
    fetch,
    fetched,
    log_of,
    offsets,
    produce,
    topic_id,
)
from tests.kproxy.broker.socket_client import Asking, asked


@pytest.mark.parametrize("version", range(19))
async def test_reads_in_every_version(version: int) -> None:
    async with asked(topics={"t": 1}) as ask:
        for _ in range(3):
            await produce(ask, batch(2))
        answer = await fetch(ask, offset=3, version=version)
    assert (answer["error_code"], answer["high_watermark"]) == (Error.NONE, 6)
    assert answer.get("log_start_offset", 0) == 0
    assert offsets(answer) == ([2, 3, 4, 5] if version >= 4 else [3, 4, 5])
    assert {each["magic"] for each in decode(answer["records"])} == {0 if version < 2 else 1 if version < 4 else 2}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("version", [0, 2, 3, 4, 12])
async def test_codecs_in_old_versions(version: int, codec: str) -> None:
    async with asked(topics={"t": 1}) as ask:
        await produce(ask, batch(3, compression=codec))
        answer = await fetch(ask, version=version)
    if codec == "zstd" and version < 4:
        assert answer["error_code"] == Error.UNSUPPORTED_COMPRESSION_TYPE
    else:
        assert offsets(answer) == [0, 1, 2]


async def test_one_batch_at_least_however_large() -> None:
    async with asked(topics={"t": 2}) as ask:
        for _ in range(2):
            await produce(ask, batch(size=1000))
            await produce(ask, batch(size=1000), partition=1)
        assert offsets(await fetch(ask, partition_max_bytes=1)) == [0]
        assert offsets(await fetch(ask, max_bytes=1)) == [0]
        assert offsets(await fetch(ask, max_bytes=-5, partition_max_bytes=-5)) == [0]
        both = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in (0, 1)]
        body = fetched(ask, max_bytes=1500) | {"topics": [{"topic": "t", "partitions": both}]}
        answer = await ask("Fetch", 12, body)
    assert [offsets(partition) for partition in answer["responses"][0]["partitions"]] == [[0], []]


@pytest.mark.parametrize("version", [0, 2])
async def test_versions_before_3_cut_a_large_message_off(version: int) -> None:
    async with asked(topics={"t": 1}) as ask:
        await produce(ask, batch(size=1000))
        answer = await fetch(ask, version=version, partition_max_bytes=100)
        assert len(answer["records"]) == 100
        assert offsets(answer) == []
        assert (await fetch(ask, version=3, partition_max_bytes=100))["records"]


async def test_waits_for_min_bytes() -> None:
    async with asked(topics={"t": 1}) as ask:
        writer = ask.another()
        size = len(batch(size=1000))
        waiting = asyncio.ensure_future(fetch(ask, max_wait_ms=60_000, min_bytes=2 * size))
        for _ in range(2):
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await produce(writer, batch(size=1000))
        assert offsets(await asyncio.wait_for(waiting, 10)) == [0, 1]
        await writer.hang_up()


async def test_waits_no_longer_than_it_is_told() -> None:
    async with asked(topics={"t": 1}) as ask:
        await produce(ask, batch())
        began = time.monotonic()
        assert offsets(await fetch(ask, max_wait_ms=200, min_bytes=1 << 30, max_bytes=1 << 30)) == [0]
        assert 0.19 < time.monotonic() - began < 5
        assert offsets(await fetch(ask, max_wait_ms=-7, min_bytes=1 << 30)) == [0]


async def stop(ask: Asking) -> None:
    ask.broker.move_leader("t", 0, 2)


async def delete(ask: Asking) -> None:
    topics = ask.broker.cluster.part(Topics)
    found = topics.named("t")
    assert found is not None
    topics.delete(found)


@pytest.mark.parametrize(
    ("happens", "error"), [(stop, Error.FENCED_LEADER_EPOCH), (delete, Error.UNKNOWN_TOPIC_OR_PARTITION)]
)
async def test_wakes_when_the_partition_goes_elsewhere(happens: Any, error: Error) -> None:
    async with asked(brokers=2, topics={"t": 1}) as ask:
        waiting = asyncio.ensure_future(fetch(ask, max_wait_ms=60_000, current_leader_epoch=0))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await happens(ask)
        answer = await asyncio.wait_for(waiting, 10)
    assert answer["error_code"] == error
    assert (answer["high_watermark"], answer["records"]) == (-1, b"")


async def test_who_hangs_up_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.broker.connection._LINGER_S", 0.05)
    async with asked(topics={"t": 1}) as ask:
        await ask.send("Fetch", 12, fetched(ask, max_wait_ms=60_000))
        waiting = log_of(ask).changed._waiting
        while not waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await ask.hang_up()
        async with asyncio.timeout(20):
            while waiting:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("offset", [-1, 3, 2**62])
async def test_offsets_out_of_range(offset: int) -> None:
    async with asked(topics={"t": 1}) as ask:
        await produce(ask, batch(2))
        assert (await fetch(ask, offset=offset, max_wait_ms=60_000))["error_code"] == Error.OFFSET_OUT_OF_RANGE
        assert (await fetch(ask, offset=2))["error_code"] == Error.NONE


async def test_leaders_followers_and_epochs() -> None:
    async with asked(brokers=3, topics={"t": 1}, configs={"default.replication.factor": "1"}) as ask:
        ask.broker.move_leader("t", 0, 2)
        assert (await fetch(ask, node=3))["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
        assert (await fetch(ask, node=1))["error_code"] == Error.NONE  # a follower, KIP-392
        assert (await fetch(ask, node=1, version=10))["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
        assert (await fetch(ask, node=2, current_leader_epoch=0))["error_code"] == Error.FENCED_LEADER_EPOCH
        assert (await fetch(ask, node=2, current_leader_epoch=2))["error_code"] == Error.UNKNOWN_LEADER_EPOCH
        answer = await fetch(ask, node=3, version=16)
    assert answer["current_leader"] == {"leader_id": 2, "leader_epoch": 1}
    assert [endpoint["node_id"] for endpoint in answer["node_endpoints"]] == [2]


async def test_brokers_do_not_replicate_from_here() -> None:
    async with asked(topics={"t": 1}) as ask:
        answer = await fetch(ask, replica_id=1, max_wait_ms=60_000)
        newer = await fetch(ask, version=15, replica_state={"replica_id": 1}, max_wait_ms=60_000)
        assert answer["error_code"] == newer["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
        assert (await fetch(ask, replica_id=-2))["error_code"] == Error.NONE


async def test_an_unknown_topic_waits_with_the_others_and_alone_not_at_all() -> None:
    async with asked(topics={"t": 1}) as ask:
        alone = await fetch(ask, "none", max_wait_ms=60_000)
        assert alone["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await fetch(ask, partition=5, max_wait_ms=60_000))["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION
        wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 9}]
        topics = [{"topic_id": each, "partitions": wanted} for each in (topic_id(ask, "t"), "A" * 21 + "Q")]
        began = time.monotonic()
        body = await ask("Fetch", 13, fetched(ask, version=13, max_wait_ms=150) | {"topics": topics})
        assert time.monotonic() - began > 0.14
    errors = [topic["partitions"][0]["error_code"] for topic in body["responses"]]
    assert errors == [Error.NONE, Error.UNKNOWN_TOPIC_ID]


async def test_read_committed_stops_at_open_transactions_and_names_aborted_ones() -> None:
    async with asked(topics={"t": 1}) as ask:
        for producer in (1, 2):
            await produce(ask, batch())  # of nobody's
            append_transactional(ask, producer)
        answer = await fetch(ask, isolation_level=1)
        assert offsets(answer) == [0]
        assert (answer["last_stable_offset"], answer["high_watermark"]) == (1, 6)
        assert answer["aborted_transactions"] == []
        assert offsets(await fetch(ask, isolation_level=0)) == list(range(6))
        waiting = asyncio.ensure_future(fetch(ask, offset=1, isolation_level=1, max_wait_ms=60_000))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        log_of(ask).append_marker(1, 0, 0, commit=False)
        answer = await asyncio.wait_for(waiting, 10)
        assert offsets(answer) == [1, 2, 3]
        assert answer["aborted_transactions"] == [{"producer_id": 1, "first_offset": 1}]
        log_of(ask).append_marker(2, 0, 0, commit=True)
        answer = await fetch(ask, offset=3, isolation_level=1)
        assert offsets(answer) == [3, 4, 5]
        assert answer["aborted_transactions"] == [{"producer_id": 1, "first_offset": 1}]
        assert (await fetch(ask, offset=7, isolation_level=1))["aborted_transactions"] == []
        assert (await fetch(ask))["aborted_transactions"] is None


@pytest.mark.parametrize("version", [7, 12, 13, 18])
async def test_sessions(version: int) -> None:
    async with asked(topics={"t": 1, "u": 1}) as ask:
        await produce(ask, batch())
        first = await ask("Fetch", version, fetched(ask, version=version, session_epoch=0))
        session = first["session_id"]
        assert session > 0
        assert len(first["responses"]) == 1
        second = await ask("Fetch", version, asking(session, 1, fetched(ask, offset=1, version=version)["topics"]))
        assert (second["error_code"], second["session_id"], second["responses"]) == (Error.NONE, session, [])
        await produce(ask, batch())
        third = await ask("Fetch", version, asking(session, 2))
        assert offsets(third["responses"][0]["partitions"][0]) == [1]
        wrong = await ask("Fetch", version, asking(session, 2))
        assert (wrong["error_code"], wrong["responses"]) == (Error.INVALID_FETCH_SESSION_EPOCH, [])
        unknown = await ask("Fetch", version, asking(session + 1, 3))
        assert (unknown["error_code"], unknown["session_id"]) == (Error.FETCH_SESSION_ID_NOT_FOUND, 0)


def asking(session: int, epoch: int, topics: Any = ()) -> dict[str, Any]:
    """The next request of a session."""
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "session_id": session,
        "session_epoch": epoch,
        "topics": list(topics),
    }
