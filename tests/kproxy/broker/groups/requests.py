"""Requests about groups and their offsets, for tests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from dissectors import schemas
from kproxy.broker.errors import Error
from kproxy.broker.groups.groups import Groups
from kproxy.broker.registry import served_apis
from kproxy.broker.topics import Topics
from tests.kproxy.broker.groups.classic_group import RANGE
from tests.kproxy.broker.socket_client import SocketClient

UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def versions(name: str) -> range:
    api = schemas.api_by_name(name)
    assert api is not None
    return range(served_apis()[api.key].lowest, served_apis()[api.key].highest + 1)


def topic_id(client: SocketClient, name: str = "t") -> str:
    topic = client.broker.cluster.part(Topics).by_name(name)
    assert topic is not None
    return topic.id


async def join(client: SocketClient, version: int = 9, member_id: str = "", **fields: Any) -> Mapping[str, Any]:
    body = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": data} for name, data in RANGE.items()],
    }
    response: Mapping[str, Any] = await client("JoinGroup", version, {**body, **fields})
    if response["error_code"] == Error.MEMBER_ID_REQUIRED:
        return await join(client, version, response["member_id"], **fields)
    return response


async def join_stable_group(client: SocketClient, group: str = "g") -> str:
    member = str((await join(client, group_id=group))["member_id"])
    sync = {
        "group_id": group,
        "generation_id": 1,
        "member_id": member,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member, "assignment": b"all"}],
    }
    assert (await client("SyncGroup", 5, sync))["assignment"] == b"all"
    return member


async def wait_for_rebalance(client: SocketClient) -> None:
    """Wait until another client's request has started a rebalance."""
    group = client.broker.cluster.part(Groups).classic_group("g")
    for _ in range(500):
        if group.state == "PreparingRebalance":
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def commit(client: SocketClient, version: int, offset: int, **fields: Any) -> list[int]:
    partitions = [
        {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": 0, "committed_metadata": "m"}
        for index in (0, 9)
    ]
    topic = {"name": "t", "topic_id": topic_id(client), "partitions": partitions}
    body = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": [topic], **fields}
    response = await client("OffsetCommit", version, body)
    return [partition["error_code"] for topic in response["topics"] for partition in topic["partitions"]]


async def fetch_offsets(
    client: SocketClient, version: int, *, group: str = "g", all_topics: bool = False, **fields: Any
) -> Any:
    topics = None if all_topics else [{"name": "t", "topic_id": topic_id(client), "partition_indexes": [0, 1]}]
    group_request = {"group_id": group, "topics": topics, **fields}
    response = await client("OffsetFetch", version, {"groups": [group_request], **group_request})
    if version >= 8:
        [response] = response["groups"]
    return response


JOIN = {
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": name, "metadata": data} for name, data in RANGE.items()],
}


def offset_commit(offset: int) -> Mapping[str, Any]:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    return {
        "group_id": "g",
        "transactional_id": "x",
        "producer_id": 1,
        "topics": [{"name": "t", "partitions": [partition]}],
    }


FIRST_HEARTBEAT: Mapping[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 10_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}
