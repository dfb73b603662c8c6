"""Offsets of groups through requests of every version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kproxy.broker.errors import Error
from tests.kproxy.broker.groups.requests import (
    FIRST_HEARTBEAT,
    commit,
    fetch_offsets,
    join_stable_group,
    offset_commit,
    versions,
)
from tests.kproxy.broker.socket_client import broker_client


@pytest.mark.parametrize("version", versions("OffsetCommit"))
async def test_offset_commit_works_in_every_version(version: int) -> None:
    async with broker_client(topics={"t": 4}) as client:
        assert await commit(client, version, 5) == [0, Error.UNKNOWN_TOPIC_OR_PARTITION]
        [topic] = (await fetch_offsets(client, 7, all_topics=True))["topics"]
        [partition] = topic["partitions"]
        assert (partition["committed_offset"], partition["metadata"]) == (5, "m")
        assert partition["committed_leader_epoch"] == (0 if version >= 6 else -1)


@pytest.mark.parametrize("version", versions("OffsetFetch"))
async def test_offset_fetch_works_in_every_version(version: int) -> None:
    async with broker_client(topics={"t": 4}) as client:
        await commit(client, 8, 5)
        [topic] = (await fetch_offsets(client, version))["topics"]
        assert [partition["committed_offset"] for partition in topic["partitions"]] == [5, -1]
        unknown_group_response = await fetch_offsets(client, version, group="nobody's")
        assert unknown_group_response.get("error_code", 0) == 0
        assert [partition["committed_offset"] for partition in unknown_group_response["topics"][0]["partitions"]] == [
            -1,
            -1,
        ]
        assert [partition["error_code"] for partition in unknown_group_response["topics"][0]["partitions"]] == [0, 0]
        if version >= 2:
            assert len((await fetch_offsets(client, version, all_topics=True))["topics"]) == 1
            assert (await fetch_offsets(client, version, group="nobody's", all_topics=True))["topics"] == []


async def test_commit_and_fetch_reject_unknown_topics() -> None:
    async with broker_client(topics={"t": 4}) as client:
        partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}]
        unknown_topic = {"name": "nothing", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": partitions}
        body = {"group_id": "g", "topics": [unknown_topic]}
        codes = [
            (await client("OffsetCommit", number, body))["topics"][0]["partitions"][0]["error_code"]
            for number in (9, 10)
        ]
        assert codes == [Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID]
        body = {"groups": [{"group_id": "g", "topics": [{**unknown_topic, "partition_indexes": [3]}]}]}
        codes = [
            (await client("OffsetFetch", number, body))["groups"][0]["topics"][0]["partitions"][0]["error_code"]
            for number in (9, 10)
        ]
        assert codes == [0, Error.UNKNOWN_TOPIC_ID]


async def test_commit_to_a_group_with_members_requires_a_current_member() -> None:
    async with broker_client(topics={"t": 4}) as client:
        assert (await commit(client, 8, 1, generation_id_or_member_epoch=3))[0] == Error.ILLEGAL_GENERATION
        assert (await commit(client, 9, 1, generation_id_or_member_epoch=3))[0] == Error.GROUP_ID_NOT_FOUND
        member = await join_stable_group(client)
        assert (await commit(client, 8, 1))[0] == Error.UNKNOWN_MEMBER_ID
        current_member = {"member_id": member, "generation_id_or_member_epoch": 1}
        assert (await commit(client, 8, 1, **current_member))[0] == 0
        assert (await commit(client, 8, 1, **current_member, group_instance_id="one"))[0] == Error.UNKNOWN_MEMBER_ID


async def test_rejects_metadata_that_is_too_long() -> None:
    async with broker_client(topics={"t": 4}) as client:
        partitions = [
            {"partition_index": index, "committed_offset": 1, "committed_metadata": "x" * 4096 + "y" * index}
            for index in (0, 1)
        ]
        response = await client(
            "OffsetCommit", 8, {"group_id": "g", "topics": [{"name": "t", "partitions": partitions}]}
        )
        assert [partition["error_code"] for partition in response["topics"][0]["partitions"]] == [
            0,
            Error.OFFSET_METADATA_TOO_LARGE,
        ]


async def test_deletes_only_offsets_of_topics_without_subscribers() -> None:
    async with broker_client(topics={"t": 4, "u": 1}) as client:
        member = await join_stable_group(client)
        partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
        topics = [{"name": name, "partitions": partitions} for name in ("t", "u")]
        member_fields = {"group_id": "g", "member_id": member, "generation_id_or_member_epoch": 1}
        await client("OffsetCommit", 8, {**member_fields, "topics": topics})
        rows = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "u", "nothing")]
        response = await client("OffsetDelete", 0, {"group_id": "g", "topics": rows})
        assert [topic["partitions"][0]["error_code"] for topic in response["topics"]] == [
            Error.GROUP_SUBSCRIBED_TO_TOPIC,
            0,
            Error.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert [topic["name"] for topic in (await fetch_offsets(client, 7, all_topics=True))["topics"]] == ["t"]
        unknown_group_response = await client("OffsetDelete", 0, {"group_id": "nobody's", "topics": rows})
        assert unknown_group_response["error_code"] == Error.GROUP_ID_NOT_FOUND


async def test_offsets_of_a_transaction_are_visible_after_its_commit() -> None:
    async with broker_client(topics={"t": 4}) as client:
        body = {"transactional_id": "x", "transaction_timeout_ms": 10_000, "producer_id": -1, "producer_epoch": -1}
        init = await client("InitProducerId", 4, body)
        producer = {
            "transactional_id": "x",
            "producer_id": init["producer_id"],
            "producer_epoch": init["producer_epoch"],
        }

        async def stage_offset(**fields: Any) -> int:
            [topic] = (await client("TxnOffsetCommit", 5, {**offset_commit(9), **producer, **fields}))["topics"]
            [partition] = topic["partitions"]
            return int(partition["error_code"])

        async def read_offset() -> tuple[int, int]:
            partition = (await fetch_offsets(client, 7, require_stable=True))["topics"][0]["partitions"][0]
            return partition["error_code"], partition["committed_offset"]

        assert await stage_offset(group_id="") == Error.INVALID_GROUP_ID
        assert await stage_offset(generation_id_or_member_epoch=4, member_id="x") == Error.ILLEGAL_GENERATION
        assert await stage_offset() == 0
        assert await read_offset() == (Error.UNSTABLE_OFFSET_COMMIT, -1)
        assert (await fetch_offsets(client, 7))["topics"][0]["partitions"][0]["error_code"] == 0
        assert (await client("EndTxn", 3, {**producer, "committed": True}))["error_code"] == 0
        for _ in range(100):
            if await read_offset() == (0, 9):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(await read_offset())


async def test_transactional_commit_requires_the_current_member_epoch() -> None:
    async with broker_client(topics={"t": 4}) as client:
        body = {"transactional_id": "x", "transaction_timeout_ms": 10_000, "producer_id": -1, "producer_epoch": -1}
        init = await client("InitProducerId", 4, body)
        await client("ConsumerGroupHeartbeat", 1, FIRST_HEARTBEAT)
        offset = {**offset_commit(9), "producer_id": init["producer_id"], "producer_epoch": init["producer_epoch"]}
        codes = []
        for epoch in (1, 2, 3):
            member = {"member_id": "m", "generation_id_or_member_epoch": epoch}
            [topic] = (await client("TxnOffsetCommit", 5, {**offset, **member}))["topics"]
            codes.append(topic["partitions"][0]["error_code"])
        assert codes == [Error.ILLEGAL_GENERATION, 0, Error.ILLEGAL_GENERATION], "producers do not know any other error"
