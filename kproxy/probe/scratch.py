"""Helpers for checks that write: a temporary topic, its leader, and coordinators."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dissectors import records
from dissectors.schemas.codes import Error
from kproxy.client.connection import BrokerConnection
from kproxy.probe.check import CheckFailed, CheckSkipped
from kproxy.probe.target import BrokerResponse, Target
from kproxy.proxy.address import TcpAddress

_CREATION_TIMEOUT_S = 15.0  # seconds until a new topic has a leader, or a new group a coordinator
_POLL_S = 0.1
ResultT = TypeVar("ResultT")
_STARTING = (Error.NOT_LEADER_OR_FOLLOWER, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.LEADER_NOT_AVAILABLE)
_LOADING = (Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR)


@dataclass(frozen=True, slots=True)
class ScratchTopic:
    """A topic with one partition, and a connection to its leader.

    Versions without topic ids are used (at most Produce 9 and Fetch 11), since all brokers serve them.
    """

    target: Target
    connection: BrokerConnection
    name: str

    async def produce(
        self, data: bytes, acks: int = -1, transactional_id: str | None = None, at_most: int = 9
    ) -> dict[str, Any]:
        """Append batches, and return the partition in the response."""
        topic = {"name": self.name, "partition_data": [{"index": 0, "records": data}]}
        response = await self.request("Produce", at_most, acks=acks, timeout_ms=10_000, topic_data=[topic],
                                      transactional_id=transactional_id)  # fmt: skip
        return _only_partition(response, "responses", "partition_responses")

    async def fetch(
        self,
        offset: int = 0,
        *,
        max_wait_ms: int = 1000,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        isolation_level: int = 0,
        current_leader_epoch: int = -1,
    ) -> dict[str, Any]:
        """Read from an offset, and return the partition in the response."""
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes,
                     "current_leader_epoch": current_leader_epoch}  # fmt: skip
        response = await self.request(
            "Fetch", 11, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes,
            isolation_level=isolation_level, topics=[{"topic": self.name, "partitions": [partition]}],
        )  # fmt: skip
        return _only_partition(response, "responses", "partitions")

    async def offset(self, timestamp: int, at_most: int = 7, current_leader_epoch: int = -1) -> dict[str, Any]:
        """Send ListOffsets for a timestamp, in version `at_most` or below, and return the partition in the response."""
        partition = {"partition_index": 0, "current_leader_epoch": current_leader_epoch, "timestamp": timestamp}
        response = await self.request(
            "ListOffsets", at_most, replica_id=-1, topics=[{"name": self.name, "partitions": [partition]}]
        )
        return _only_partition(response, "topics", "partitions")

    async def topic_id(self, version: int = 12) -> str:
        """Return the topic's id, as this version of Metadata returns it."""
        self.target.version("Metadata", version)
        response = await self.request("Metadata", version, topics=[{"name": self.name}])
        topic_id: str = response.body["topics"][0]["topic_id"]
        return topic_id

    async def request(self, api: str, at_most: int, **values: object) -> BrokerResponse:
        """Send a request to the leader, in the newest version up to `at_most`."""
        return await self.target.request(self.connection, api, min(at_most, self.target.version(api)), **values)


def batch(*values: bytes, **settings: object) -> bytes:
    """Return an encoded batch of records with these values; for `settings`, see `dissectors.records.encode`."""
    now_ms = time.time_ns() // 1_000_000
    return records.encode([{"records": [{"key": None, "value": element, "timestamp": now_ms} for element in values],
                            "partition_leader_epoch": -1, **settings}])  # fmt: skip


def values_of(data: bytes | None) -> list[bytes | None]:
    """Return the values of all records in fetched bytes, except control records."""
    return [
        record["value"]
        for partition in records.decode(data or b"")
        if not partition.get("is_control")
        for record in partition.get("records", ())
    ]


@asynccontextmanager
async def scratch_topic(target: Target, name: str | None = None) -> AsyncIterator[ScratchTopic]:
    """Create a topic (with a new name if `name` is None), connect to its leader, and delete the topic at the end."""
    name = target.new_name("topic") if name is None else name
    async with target.connection() as connection:
        version = min(6, target.version("CreateTopics"))
        topic_request = {"name": name, "num_partitions": 1, "replication_factor": 1}
        create_response = await target.request(
            connection, "CreateTopics", version, timeout_ms=10_000, topics=[topic_request]
        )
        if code := create_response.body["topics"][0]["error_code"]:
            raise CheckSkipped(f"a topic cannot be created: error {code}")
        try:
            leader = await _find_leader(target, connection, name)
            async with leader.connection() as leader_connection:
                topic = ScratchTopic(leader, leader_connection, name)
                await _wait_until_served(topic)
                yield topic
        finally:
            await delete_topic(target, name)


async def create_topic(
    target: Target,
    connection: BrokerConnection,
    name: str,
    partitions: int,
    replicas: int,
    *,
    validate_only: bool = False,
) -> int:
    """Try to create a topic, and return the error code. If it is created, delete it again."""
    topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas}
    version = min(6, target.version("CreateTopics"))
    response = await target.request(connection, "CreateTopics", version, timeout_ms=10_000, topics=[topic],
                                    validate_only=validate_only)  # fmt: skip
    if [topic["name"] for topic in response.body["topics"]] != [name]:
        raise response.failure("the response does not have exactly the topic of the request")
    code: int = response.body["topics"][0]["error_code"]
    if not code and not validate_only:
        await delete_topic(target, name)
    return code


async def _wait_until_served(topic: ScratchTopic) -> None:
    """Wait until the leader knows that it leads the partition, which may be after Metadata says so."""
    deadline = time.monotonic() + _CREATION_TIMEOUT_S
    while time.monotonic() < deadline:
        if (await topic.offset(-1))["error_code"] not in _STARTING:
            return
        await asyncio.sleep(_POLL_S)


async def delete_topic(target: Target, name: str) -> None:
    """Delete a topic by its name."""
    async with target.connection() as connection:
        version = min(5, target.version("DeleteTopics"))
        await target.request(connection, "DeleteTopics", version, topic_names=[name], timeout_ms=10_000)


async def _find_leader(target: Target, connection: BrokerConnection, topic: str) -> Target:
    """Wait until the partition has a leader, and return the target with the leader's address."""
    deadline = time.monotonic() + _CREATION_TIMEOUT_S
    while True:
        response = await target.request(
            connection, "Metadata", min(9, target.version("Metadata")), topics=[{"name": topic}]
        )
        topic_entry = next((entry for entry in response.body["topics"] if entry["name"] == topic), None)
        partitions = topic_entry["partitions"] if topic_entry else []
        if partitions and not partitions[0]["error_code"] and partitions[0]["leader_id"] >= 0:
            brokers = {broker["node_id"]: broker for broker in response.body["brokers"]}
            node = brokers.get(partitions[0]["leader_id"])
            if node is None:
                raise response.failure(
                    f"Metadata names leader {partitions[0]['leader_id']}, but does not list that broker"
                )
            return replace(target, address=TcpAddress(node["host"], node["port"]))
        if time.monotonic() > deadline:
            raise response.failure(f"the new topic has no leader after {_CREATION_TIMEOUT_S:g} s")
        await asyncio.sleep(_POLL_S)


async def find_coordinator(target: Target, key: str, *, transactions: bool = False) -> Target:
    """Wait until a group or transactional id has a coordinator, and return the target with its address."""
    version = min(3, target.version("FindCoordinator", int(transactions)))
    async with target.connection() as connection:
        response = await send_when_ready(
            target, connection, "FindCoordinator", version, key=key, key_type=int(transactions)
        )
        if response.body["error_code"]:
            raise response.failure(f"FindCoordinator returns error {_error_text(response.body['error_code'])}")
        return replace(target, address=TcpAddress(response.body["host"], response.body["port"]))


async def send_when_ready(
    target: Target, connection: BrokerConnection, api: str, version: int, **values: object
) -> BrokerResponse:
    """Repeat a request until the coordinator has loaded: on a new cluster, the first request creates its topic."""
    deadline = time.monotonic() + _CREATION_TIMEOUT_S
    while True:
        response = await target.request(connection, api, version, **values)
        if response.body["error_code"] not in _LOADING or time.monotonic() > deadline:
            return response
        await asyncio.sleep(_POLL_S)


async def poll_until(
    target: Target, send: Callable[[], Awaitable[ResultT]], is_done: Callable[[ResultT], bool]
) -> ResultT:
    """Send repeatedly until the result is as expected: brokers learn of the controller's changes with a delay.

    Return the last result, whether as expected or not, after the time limit of a response.
    """
    deadline = time.monotonic() + target.within
    while True:
        result = await send()
        if is_done(result) or time.monotonic() > deadline:
            return result
        await asyncio.sleep(_POLL_S)


def _only_partition(response: BrokerResponse, outer: str, inner: str) -> dict[str, Any]:
    topics = response.body[outer]
    if len(topics) != 1 or len(topics[0][inner]) != 1:
        raise response.failure("the response does not have exactly the topic and partition of the request")
    partition: dict[str, Any] = topics[0][inner][0]
    return partition


def expect(code: int, expected: Error, description: str) -> None:
    """Fail unless an error code is the expected one."""
    if code != expected:
        raise CheckFailed(f"{description} returns error {_error_text(code)} instead of {_error_text(expected)}")


def _error_text(code: int) -> str:
    try:
        return f"{code} ({Error(code).name})"
    except ValueError:
        return str(code)
