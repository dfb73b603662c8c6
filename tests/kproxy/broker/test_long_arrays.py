"""Arrays in any request: work grows linearly with their length, and other clients are served meanwhile."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from dissectors.wire.layout import layout
from kproxy.broker import auto_creation, connection, pacing
from kproxy.broker.apis import describe_configs
from kproxy.broker.errors import Error
from kproxy.broker.topics import MAX_NEW_PARTITIONS, Topics
from tests.kproxy.broker.every_api import APIS, OPTIONS, PREREQUISITES, WITH_LOGIN, ApiClient, needs_login
from tests.kproxy.broker.long_arrays import array_paths, with_long_array
from tests.kproxy.broker.socket_client import SocketClient, broker_client

#: APIs whose arrays are handled in one go: an element costs little, and a request concerns one group or entity.
AT_ONCE = {
    "AddPartitionsToTxn",
    "ConsumerGroupHeartbeat",
    "CreateDelegationToken",
    "DescribeClientQuotas",
    "DescribeDelegationToken",
    "DescribeQuorum",
    "Fetch",
    "GetTelemetrySubscriptions",
    "JoinGroup",
    "LeaveGroup",
    "ListConfigResources",
    "ListGroups",
    "ListPartitionReassignments",
    "ListTransactions",
    "PushTelemetry",
    "ShareFetch",
    "ShareGroupHeartbeat",
    "SyncGroup",
    "UpdateFeatures",
}
#: Arrays nested in elements. In a valid request, each of them is short.
AT_ONCE_IN_ELEMENTS = {
    "acknowledge_types",
    "acknowledgement_batches",
    "assignments",
    "broker_ids",
    "configs",
    "configuration_keys",
    "entity",
    "ops",
    "replicas",
    "state_batches",
}


def is_paced(api: str, path: tuple[str, ...]) -> bool:
    return api not in AT_ONCE and (len(path) == 1 or path[-1] not in AT_ONCE_IN_ELEMENTS)


@contextmanager
def count_calls() -> Iterator[list[int]]:
    """Count the calls of kproxy's functions, but not of asyncio's, which depend on when data arrives."""
    calls = [0]

    def count_call(frame: FrameType, event: str, _: object) -> None:
        calls[0] += event == "call" and ("/kproxy/" in frame.f_code.co_filename)

    sys.setprofile(count_call)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def prepare_client(client: SocketClient, api: str) -> ApiClient:
    """Return a client that has sent the prerequisites of an API."""
    api_client = ApiClient(client, "g")
    for prerequisite in PREREQUISITES.get(api, ()):
        await api_client._send(prerequisite, APIS[prerequisite][-1])
    return api_client


@pytest.mark.parametrize("api", sorted(APIS))
async def test_work_is_linear_in_the_array_length_and_other_clients_are_served(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "_STEP_S", 0)  # other clients may get a turn after each element
    version = APIS[api][-1]
    request_layout = layout(f"{api}Request", version)
    paths = list(array_paths(request_layout))
    if not paths:
        return
    options = WITH_LOGIN if needs_login(api) else OPTIONS
    configs = options["configs"] | {"auto.create.topics.enable": "false"}  # topics would be created in the background
    async with broker_client(reports=[], **options | {"configs": configs}) as client:
        api_client = await prepare_client(client, api)
        other = client.second_client()
        await other("ApiVersions", 0)
        requests_sent = 0
        for path in paths:
            calls, order = [], []
            for length in (25, 30, 60, 120):  # the first one fills caches
                body = with_long_array(api_client.body(api, version), request_layout, path, length)
                if api == "ShareAcknowledge":
                    body["share_session_epoch"] += requests_sent
                with count_calls() as count:
                    order = await race(client, api, version, body, other)
                calls.append(count[0])
                requests_sent += 1
            first_growth, second_growth = calls[2] - calls[1], calls[3] - calls[2]
            assert second_growth < 2.5 * max(first_growth, 300), (path, calls)
            if is_paced(api, path):
                assert order == ["ApiVersions", api], path
        await other.hang_up()


async def race(client: SocketClient, api: str, version: int, body: dict[str, Any], other: SocketClient) -> list[str]:
    """Send a request, then a small one from a second client; return the APIs in the order of the responses."""
    order: list[str] = []

    async def await_response(racer: SocketClient, racer_api: str, racer_version: int) -> None:
        try:
            await racer.receive(racer_api, racer_version)
        except asyncio.IncompleteReadError:  # some requests close the connection
            await racer.hang_up()
        order.append(racer_api)

    await client.send(api, version, body)
    await other.send("ApiVersions", 0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(await_response(client, api, version))
        tasks.create_task(await_response(other, "ApiVersions", 0))
    return order


async def test_metadata_request_creates_no_more_topics_than_kafka() -> None:
    async with broker_client(auto_create_delay_ms=1) as client:
        topic_requests = [{"name": f"new.{number}"} for number in range(MAX_NEW_PARTITIONS + 1)]
        response = await client("Metadata", 4, {"topics": topic_requests, "allow_auto_topic_creation": True})
        assert {topic["error_code"] for topic in response["topics"]} == {Error.UNKNOWN_TOPIC_OR_PARTITION}
        await client("Metadata", 4, {"topics": topic_requests[:5], "allow_auto_topic_creation": True})
        topics = client.broker.cluster.part(Topics)
        while len(list(topics)) < 5:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)
        assert {topic.name for topic in topics} == {topic_request["name"] for topic_request in topic_requests[:5]}


async def test_other_clients_are_served_while_many_topics_are_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_creation, "_STEP_S", 0)
    async with broker_client(auto_create_delay_ms=1) as client:
        topic_requests = [{"name": f"new.{number}"} for number in range(50)]
        await client("Metadata", 4, {"topics": topic_requests, "allow_auto_topic_creation": True})
        topics, counts = client.broker.cluster.part(Topics), set()
        while len(list(topics)) < 50:
            await client("ApiVersions", 0)
            counts.add(len(list(topics)))
        assert len(counts) > 5


async def test_request_may_create_ten_thousand_partitions_in_total() -> None:
    async with broker_client() as client:
        half = MAX_NEW_PARTITIONS // 2 + 1
        topics = [{"name": name, "num_partitions": half, "replication_factor": 1} for name in "ab"]
        response = await client("CreateTopics", 5, {"topics": topics, "validate_only": True})
        assert [(topic["name"], topic["error_code"]) for topic in response["topics"]] == [
            ("a", Error.POLICY_VIOLATION),
            ("b", Error.POLICY_VIOLATION),
        ]
        response = await client("CreateTopics", 5, {"topics": topics[:1], "validate_only": True})
        assert [topic["error_code"] for topic in response["topics"]] == [Error.NONE]


async def test_large_response_is_encoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    encode, threads = connection.response_frame, []

    def encode_and_record(*args: Any) -> bytearray:
        threads.append(threading.current_thread())
        return encode(*args)

    monkeypatch.setattr(connection, "response_frame", encode_and_record)
    async with broker_client(topics={"t": 1}) as client:
        resources = [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}]
        for count in (1, 300):
            await client("DescribeConfigs", 4, {"resources": resources * count})
    assert [thread is threading.current_thread() for thread in threads] == [True, False]


async def test_describe_configs_response_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_configs, "_MAX_CONFIGS", 40)
    async with broker_client(topics={"t": 1}) as client:
        resources = [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}] * 3
        results = (await client("DescribeConfigs", 4, {"resources": resources}))["results"]
    assert [result["error_code"] for result in results] == [Error.NONE, Error.NONE, Error.INVALID_REQUEST] or [
        result["error_code"] for result in results
    ] == [Error.NONE, Error.INVALID_REQUEST, Error.INVALID_REQUEST]
