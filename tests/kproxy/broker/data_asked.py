"""Produce and Fetch requests of tests, and the parts of their responses that tests check."""

from __future__ import annotations

import time
from typing import Any

from dissectors.records import decode, encode
from kproxy.broker.log import Log
from kproxy.broker.log.appending import append
from kproxy.broker.log.settings import settings
from kproxy.broker.topics import Topics
from tests.kproxy.broker.socket_client import SocketClient


def now() -> int:
    """Time in ms."""
    return int(time.time() * 1000)


def batch(count: int = 1, *, size: int = 1, key: bytes | None = b"k", **values: Any) -> bytes:
    """A batch of records with the current time."""
    at = now()
    return encode([{"records": [{"key": key, "value": b"v" * size, "timestamp": at} for _ in range(count)], **values}])


def log_of(ask: SocketClient, topic: str = "t") -> Log:
    """The log of a topic's first partition."""
    partition = ask.broker.cluster.part(Topics).partition(topic, 0)
    assert partition is not None
    return partition.log


def append_transactional(ask: SocketClient, producer_id: int, count: int = 2) -> None:
    """Append a transactional batch to ``t-0`` that no coordinator knows about."""
    data = batch(count, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log_of(ask), memoryview(data), settings(ask.broker.cluster, "t"), now())


def topic_id(ask: SocketClient, topic: str) -> str:
    """The id of a topic."""
    state = ask.broker.cluster.part(Topics).named(topic)
    assert state is not None
    return state.id


async def produce(
    ask: SocketClient,
    data: bytes | None,
    topic: str = "t",
    *,
    version: int = 12,
    acks: int = -1,
    partition: int = 0,
    node: int = 1,
    transactional_id: str | None = None,
) -> dict[str, Any]:
    """The answer for one partition."""
    body = produce_request(
        ask, data, topic, version=version, acks=acks, partition=partition, transactional_id=transactional_id
    )
    response = await ask("Produce", version, body, node=node)
    [partition_response] = response["responses"][0]["partition_responses"]
    return dict(partition_response) | {"node_endpoints": response.get("node_endpoints")}


def produce_request(
    ask: SocketClient,
    data: bytes | None,
    topic: str = "t",
    *,
    version: int = 12,
    acks: int = -1,
    partition: int = 0,
    transactional_id: str | None = None,
) -> dict[str, Any]:
    """The request for one partition."""
    topic_fields = {"topic_id": topic_id(ask, topic)} if version >= 13 else {"name": topic}
    return {
        "acks": acks,
        "timeout_ms": 1000,
        "transactional_id": transactional_id,
        "topic_data": [topic_fields | {"partition_data": [{"index": partition, "records": data}]}],
    }


def fetch_request(
    ask: SocketClient, topic: str = "t", offset: int = 0, *, version: int = 12, **values: Any
) -> dict[str, Any]:
    """A Fetch of one partition that waits for nothing; `values` are fields of the request or of the partition."""
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    partition |= {name: values.pop(name) for name in list(values) if name in partition}
    topic_fields = {"topic_id": topic_id(ask, topic)} if version >= 13 else {"topic": topic}
    body = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, "replica_id": -1}
    return body | {"topics": [topic_fields | {"partitions": [partition]}]} | values


async def fetch(
    ask: SocketClient, topic: str = "t", offset: int = 0, *, version: int = 12, node: int = 1, **values: Any
) -> dict[str, Any]:
    """The answer for one partition."""
    response = await ask("Fetch", version, fetch_request(ask, topic, offset, version=version, **values), node=node)
    [partition] = response["responses"][0]["partitions"]
    return dict(partition) | {"node_endpoints": response.get("node_endpoints")}


def records(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of a Fetch response, without those of control batches."""
    return [
        record
        for partition in decode(response["records"])
        if not partition.get("is_control") and "truncated" not in partition
        for record in partition["records"]
    ]


def offsets(response: dict[str, Any]) -> list[int]:
    """The offsets of the records of a Fetch response."""
    return [record["offset"] for record in records(response)]
