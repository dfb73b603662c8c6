"""Produce and Fetch requests of tests, and what of their answers tests want to know."""

from __future__ import annotations

import time
from typing import Any

from dissectors.records import decode, encode
from kproxy.broker.log import Log
from kproxy.broker.log.appending import append
from kproxy.broker.log.settings import settings
from kproxy.broker.topics import Topics
from tests.kproxy.broker.socket_client import Asking


def now() -> int:
    """Time in ms."""
    return int(time.time() * 1000)


def batch(count: int = 1, *, size: int = 1, key: bytes | None = b"k", **values: Any) -> bytes:
    """A batch of records of this moment."""
    at = now()
    return encode([{"records": [{"key": key, "value": b"v" * size, "timestamp": at} for _ in range(count)], **values}])


def log_of(ask: Asking, topic: str = "t") -> Log:
    """The log of a topic's first partition."""
    found = ask.broker.cluster.part(Topics).partition(topic, 0)
    assert found is not None
    return found.log


def append_transactional(ask: Asking, producer_id: int, count: int = 2) -> None:
    """Have a producer write to ``t-0`` in a transaction that no coordinator knows of."""
    data = batch(count, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log_of(ask), memoryview(data), settings(ask.broker.cluster, "t"), now())


def topic_id(ask: Asking, topic: str) -> str:
    """The id of a topic."""
    found = ask.broker.cluster.part(Topics).named(topic)
    assert found is not None
    return found.id


async def produce(
    ask: Asking,
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
    body = produced(
        ask, data, topic, version=version, acks=acks, partition=partition, transactional_id=transactional_id
    )
    answer = await ask("Produce", version, body, node=node)
    [response] = answer["responses"][0]["partition_responses"]
    return dict(response) | {"node_endpoints": answer.get("node_endpoints")}


def produced(
    ask: Asking,
    data: bytes | None,
    topic: str = "t",
    *,
    version: int = 12,
    acks: int = -1,
    partition: int = 0,
    transactional_id: str | None = None,
) -> dict[str, Any]:
    """The request for one partition."""
    named = {"topic_id": topic_id(ask, topic)} if version >= 13 else {"name": topic}
    return {
        "acks": acks,
        "timeout_ms": 1000,
        "transactional_id": transactional_id,
        "topic_data": [named | {"partition_data": [{"index": partition, "records": data}]}],
    }


def fetched(ask: Asking, topic: str = "t", offset: int = 0, *, version: int = 12, **values: Any) -> dict[str, Any]:
    """A Fetch of one partition that waits for nothing; `values` are fields of the request or of the partition."""
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    wanted |= {name: values.pop(name) for name in list(values) if name in wanted}
    named = {"topic_id": topic_id(ask, topic)} if version >= 13 else {"topic": topic}
    body = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, "replica_id": -1}
    return body | {"topics": [named | {"partitions": [wanted]}]} | values


async def fetch(
    ask: Asking, topic: str = "t", offset: int = 0, *, version: int = 12, node: int = 1, **values: Any
) -> dict[str, Any]:
    """The answer for one partition."""
    answer = await ask("Fetch", version, fetched(ask, topic, offset, version=version, **values), node=node)
    [partition] = answer["responses"][0]["partitions"]
    return dict(partition) | {"node_endpoints": answer.get("node_endpoints")}


def records(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of a Fetch's answer, without those of control batches."""
    return [
        record
        for partition in decode(answer["records"])
        if not partition.get("is_control") and "truncated" not in partition
        for record in partition["records"]
    ]


def offsets(answer: dict[str, Any]) -> list[int]:
    """Their offsets."""
    return [record["offset"] for record in records(answer)]
