"""Topics that are created because a client requested their metadata: after the response, as in Kafka."""

from __future__ import annotations

import pytest

from dissectors.schemas.lines import line, lines
from kproxy.broker.errors import Error
from kproxy.broker.topics import Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.socket_client import SocketClient, broker_client

METADATA = 3


def use_fake_clock(client: SocketClient) -> FakeClock:
    clock = client.broker.cluster.clock = FakeClock()
    return clock


async def request_metadata(client: SocketClient, version: int, name: str, *, create: bool = True) -> tuple[int, int]:
    """Request the metadata of a topic; return its error and its number of partitions."""
    body = {"topics": [{"name": name}], "allow_auto_topic_creation": create}
    [topic] = (await client("Metadata", version, body))["topics"]
    return topic["error_code"], len(topic["partitions"])


@pytest.mark.parametrize("release", lines())
async def test_requested_topic_exists_after_a_delay(release: str) -> None:
    lowest, highest = line(release).served[METADATA]
    pending = Error.UNKNOWN_TOPIC_OR_PARTITION if line(release).kraft else Error.LEADER_NOT_AVAILABLE
    async with broker_client(release=release, configs={"num.partitions": "2"}) as client:
        clock = use_fake_clock(client)
        for version in range(lowest, highest + 1):
            name = f"asked-in-v{version}"
            assert await request_metadata(client, version, name) == (pending, 0)
            clock.advance(39)
            assert await request_metadata(client, version, name) == (pending, 0)
            clock.advance(1)
            assert await request_metadata(client, version, name) == (Error.NONE, 2)


async def test_delay_is_configurable() -> None:
    async with broker_client(auto_create_delay_ms=500) as client:
        clock = use_fake_clock(client)
        await request_metadata(client, 12, "orders")
        clock.advance(499)
        assert await request_metadata(client, 12, "orders") == (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)
        clock.advance(1)
        assert await request_metadata(client, 12, "orders") == (Error.NONE, 1)
    async with broker_client(auto_create_delay_ms=0) as client:
        use_fake_clock(client)
        assert await request_metadata(client, 12, "orders") == (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)
        assert await request_metadata(client, 12, "orders") == (Error.NONE, 1)


async def test_creates_nothing_if_the_broker_or_the_client_disables_it() -> None:
    unknown_topic = (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)
    for configs, create in (({"auto.create.topics.enable": "false"}, True), ({}, False)):
        for release in ("2.4", "4.3"):
            async with broker_client(release=release, configs=configs) as client:
                clock = use_fake_clock(client)
                assert await request_metadata(client, 9, "orders", create=create) == unknown_topic
                clock.advance(1000)
                assert await request_metadata(client, 9, "orders", create=create) == unknown_topic


async def test_explicit_creation_during_the_delay_wins() -> None:
    async with broker_client() as client:
        clock = use_fake_clock(client)
        await request_metadata(client, 12, "orders")
        topic = {"name": "orders", "num_partitions": 5, "replication_factor": 1, "assignments": [], "configs": []}
        [created] = (await client("CreateTopics", 7, {"topics": [topic], "timeout_ms": 1000}))["topics"]
        assert created["error_code"] == Error.NONE
        clock.advance(1000)
        assert await request_metadata(client, 12, "orders") == (Error.NONE, 5)


async def test_internal_topics_are_created_as_internal() -> None:
    async with broker_client(configs={"offsets.topic.num.partitions": "7"}) as client:
        clock = use_fake_clock(client)
        await request_metadata(client, 12, "__consumer_offsets")
        clock.advance(40)
        [topic] = (await client("Metadata", 12, {"topics": [{"name": "__consumer_offsets"}]}))["topics"]
    assert topic["is_internal"]
    assert len(topic["partitions"]) == 7


@pytest.mark.parametrize(("release", "error"), [("3.2", 17), ("3.3", 3)])
async def test_does_not_create_a_topic_with_a_colliding_name(release: str, error: int) -> None:
    async with broker_client(release=release, topics={"a.b": 1}) as client:
        clock = use_fake_clock(client)
        assert await request_metadata(client, 9, "a_b") == (error, 0)
        clock.advance(1000)
        assert await request_metadata(client, 9, "a_b") == (error, 0)


async def test_creates_nothing_after_the_broker_stops() -> None:
    async with broker_client() as client:
        clock = use_fake_clock(client)
        await request_metadata(client, 12, "orders")
    clock.advance(1000)
    assert client.broker.cluster.part(Topics).by_name("orders") is None
