"""Arrays of any request: work grows with their length, no faster, and others are answered meanwhile."""

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
from tests.kproxy.broker.every_api import _BEFORE, APIS, OPTIONS, WITH_LOGIN, Client, logs_in
from tests.kproxy.broker.long_arrays import arrays, inflated
from tests.kproxy.broker.socket_client import Asking, asked

#: Handled at once: what they cost for each element is little, and their requests concern one group or entity.
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
#: Arrays inside of elements, of which one has few in a valid request.
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
def counted() -> Iterator[list[int]]:
    """Count the calls of kproxy's functions; those of asyncio depend on when data arrives."""
    calls = [0]

    def called(frame: FrameType, event: str, _: object) -> None:
        calls[0] += event == "call" and ("/kproxy/" in frame.f_code.co_filename)

    sys.setprofile(called)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def prepared(ask: Asking, api: str) -> Client:
    """A client that has asked what has to come before."""
    client = Client(ask, "g")
    for each in _BEFORE.get(api, ()):
        await client._said(each, APIS[each][-1])
    return client


@pytest.mark.parametrize("api", sorted(APIS))
async def test_work_grows_with_the_array_and_others_are_answered(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "_STEP_S", 0)  # others may have a turn after each element
    version = APIS[api][-1]
    made = layout(f"{api}Request", version)
    paths = list(arrays(made))
    if not paths:
        return
    options = WITH_LOGIN if logs_in(api) else OPTIONS
    configs = options["configs"] | {"auto.create.topics.enable": "false"}  # creation is in the background
    async with asked(said=[], **options | {"configs": configs}) as ask:
        client = await prepared(ask, api)
        other = ask.another()
        await other("ApiVersions", 0)
        asks = 0
        for path in paths:
            calls, order = [], []
            for length in (25, 30, 60, 120):  # the first one fills caches
                body = inflated(client.body(api, version), made, path, length)
                if api == "ShareAcknowledge":
                    body["share_session_epoch"] += asks
                with counted() as count:
                    order = await raced(ask, api, version, body, other)
                calls.append(count[0])
                asks += 1
            first, second = calls[2] - calls[1], calls[3] - calls[2]
            assert second < 2.5 * max(first, 300), (path, calls)
            if is_paced(api, path):
                assert order == ["ApiVersions", api], path
        await other.hang_up()


async def raced(ask: Asking, api: str, version: int, body: dict[str, Any], other: Asking) -> list[str]:
    """Ask, and then have another client ask something small; who is answered first."""
    order: list[str] = []

    async def answered(who: Asking, what: str, number: int) -> None:
        try:
            await who.receive(what, number)
        except asyncio.IncompleteReadError:  # some requests close the connection
            await who.hang_up()
        order.append(what)

    await ask.send(api, version, body)
    await other.send("ApiVersions", 0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(answered(ask, api, version))
        tasks.create_task(answered(other, "ApiVersions", 0))
    return order


async def test_a_metadata_request_creates_no_more_topics_than_kafka() -> None:
    async with asked(auto_create_delay_ms=1) as ask:
        names = [{"name": f"new.{number}"} for number in range(MAX_NEW_PARTITIONS + 1)]
        answer = await ask("Metadata", 4, {"topics": names, "allow_auto_topic_creation": True})
        assert {topic["error_code"] for topic in answer["topics"]} == {Error.UNKNOWN_TOPIC_OR_PARTITION}
        await ask("Metadata", 4, {"topics": names[:5], "allow_auto_topic_creation": True})
        topics = ask.broker.cluster.part(Topics)
        while len(list(topics)) < 5:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.001)
        assert {topic.name for topic in topics} == {name["name"] for name in names[:5]}


async def test_others_are_answered_while_many_topics_are_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_creation, "_STEP_S", 0)
    async with asked(auto_create_delay_ms=1) as ask:
        names = [{"name": f"new.{number}"} for number in range(50)]
        await ask("Metadata", 4, {"topics": names, "allow_auto_topic_creation": True})
        topics, found = ask.broker.cluster.part(Topics), set()
        while len(list(topics)) < 50:
            await ask("ApiVersions", 0)
            found.add(len(list(topics)))
        assert len(found) > 5


async def test_a_request_may_create_ten_thousand_partitions_in_all() -> None:
    async with asked() as ask:
        half = MAX_NEW_PARTITIONS // 2 + 1
        both = [{"name": name, "num_partitions": half, "replication_factor": 1} for name in "ab"]
        answer = await ask("CreateTopics", 5, {"topics": both, "validate_only": True})
        assert [(topic["name"], topic["error_code"]) for topic in answer["topics"]] == [
            ("a", Error.POLICY_VIOLATION),
            ("b", Error.POLICY_VIOLATION),
        ]
        answer = await ask("CreateTopics", 5, {"topics": both[:1], "validate_only": True})
        assert [topic["error_code"] for topic in answer["topics"]] == [Error.NONE]


async def test_a_large_response_is_encoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    encode, threads = connection.response_frame, []

    def encoded(*args: Any) -> bytearray:
        threads.append(threading.current_thread())
        return encode(*args)

    monkeypatch.setattr(connection, "response_frame", encoded)
    async with asked(topics={"t": 1}) as ask:
        resources = [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}]
        for count in (1, 300):
            await ask("DescribeConfigs", 4, {"resources": resources * count})
    assert [thread is threading.current_thread() for thread in threads] == [True, False]


async def test_a_describe_configs_response_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_configs, "_MAX_CONFIGS", 40)
    async with asked(topics={"t": 1}) as ask:
        resources = [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}] * 3
        results = (await ask("DescribeConfigs", 4, {"resources": resources}))["results"]
    assert [result["error_code"] for result in results] == [Error.NONE, Error.NONE, Error.INVALID_REQUEST] or [
        result["error_code"] for result in results
    ] == [Error.NONE, Error.INVALID_REQUEST, Error.INVALID_REQUEST]
