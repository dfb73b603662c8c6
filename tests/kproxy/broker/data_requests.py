"""Produce and Fetch requests for tests, and the parts of the responses that tests check."""

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
    """Return the current time in ms."""
    return int(time.time() * 1000)


def batch(count: int = 1, *, size: int = 1, key: bytes | None = b"k", **values: Any) -> bytes:
    """Return a batch of records with the current time."""
    timestamp = now()
    return encode(
        [{"records": [{"key": key, "value": b"v" * size, "timestamp": timestamp} for _ in range(count)], **values}]
    )


def log_of(client: SocketClient, topic: str = "t") -> Log:
    """Return the log of a topic's first partition."""
    partition = client.broker.cluster.part(Topics).partition(topic, 0)
    assert partition is not None
    return partition.log


def append_transactional(client: SocketClient, producer_id: int, count: int = 2) -> None:
    """Append a transactional batch to ``t-0`` that no coordinator knows about."""
    data = batch(count, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log_of(client), memoryview(data), settings(client.broker.cluster, "t"), now())


def topic_id(client: SocketClient, topic: str) -> str:
    """Return the id of a topic."""
    state = client.broker.cluster.part(Topics).by_name(topic)
    assert state is not None
    return state.id


async def produce(
    client: SocketClient,
    data: bytes | None,
    topic: str = "t",
    *,
    version: int = 12,
    acks: int = -1,
    partition: int = 0,
    node: int = 1,
    transactional_id: str | None = None,
) -> dict[str, Any]:
    """Send records to one partition; return its part of the response."""
    body = produce_request(
        client, data, topic, version=version, acks=acks, partition=partition, transactional_id=transactional_id
    )
    response = await client("Produce", version, body, node=node)
    [partition_response] = response["responses"][0]["partition_responses"]
    return dict(partition_response) | {"node_endpoints": response.get("node_endpoints")}


def produce_request(
    client: SocketClient,
    data: bytes | None,
    topic: str = "t",
    *,
    version: int = 12,
    acks: int = -1,
    partition: int = 0,
    transactional_id: str | None = None,
) -> dict[str, Any]:
    """Return a Produce request for one partition."""
    topic_fields = {"topic_id": topic_id(client, topic)} if version >= 13 else {"name": topic}
    return {
        "acks": acks,
        "timeout_ms": 1000,
        "transactional_id": transactional_id,
        "topic_data": [topic_fields | {"partition_data": [{"index": partition, "records": data}]}],
    }


def fetch_request(
    client: SocketClient, topic: str = "t", offset: int = 0, *, version: int = 12, **values: Any
) -> dict[str, Any]:
    """Return a Fetch request for one partition, without waiting. `values` are fields of the request or partition."""
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    partition |= {name: values.pop(name) for name in list(values) if name in partition}
    topic_fields = {"topic_id": topic_id(client, topic)} if version >= 13 else {"topic": topic}
    body = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, "replica_id": -1}
    return body | {"topics": [topic_fields | {"partitions": [partition]}]} | values


async def fetch(
    client: SocketClient, topic: str = "t", offset: int = 0, *, version: int = 12, node: int = 1, **values: Any
) -> dict[str, Any]:
    """Fetch from one partition; return its part of the response."""
    response = await client(
        "Fetch", version, fetch_request(client, topic, offset, version=version, **values), node=node
    )
    [partition] = response["responses"][0]["partitions"]
    return dict(partition) | {"node_endpoints": response.get("node_endpoints")}


def records(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records in a Fetch response, except those of control batches."""
    return [
        record
        for message_set in decode(response["records"])
        if not message_set.get("is_control") and "truncated" not in message_set
        for record in message_set["records"]
    ]


def offsets(response: dict[str, Any]) -> list[int]:
    """Return the offsets of the records in a Fetch response."""
    return [record["offset"] for record in records(response)]
