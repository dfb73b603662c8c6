"""Topics that are created because a client requested their metadata: after the response, as in Kafka."""

from __future__ import annotations

import pytest

from dissectors.schemas.lines import line, lines
from kproxy.broker.errors import Error
from kproxy.broker.topics import Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.socket_client import SocketClient, broker_client

METADATA = 3


def stop_time(ask: SocketClient) -> FakeClock:
    clock = ask.broker.cluster.clock = FakeClock()
    return clock


async def metadata(ask: SocketClient, version: int, name: str, *, create: bool = True) -> tuple[int, int]:
    """The error of a topic, and how many partitions it has."""
    body = {"topics": [{"name": name}], "allow_auto_topic_creation": create}
    [topic] = (await ask("Metadata", version, body))["topics"]
    return topic["error_code"], len(topic["partitions"])


@pytest.mark.parametrize("release", lines())
async def test_topic_exists_after_a_delay_once_requested(release: str) -> None:
    lowest, highest = line(release).served[METADATA]
    pending = Error.UNKNOWN_TOPIC_OR_PARTITION if line(release).kraft else Error.LEADER_NOT_AVAILABLE
    async with broker_client(release=release, configs={"num.partitions": "2"}) as ask:
        clock = stop_time(ask)
        for version in range(lowest, highest + 1):
            name = f"asked-in-v{version}"
            assert await metadata(ask, version, name) == (pending, 0)
            clock.advance(39)
            assert await metadata(ask, version, name) == (pending, 0)
            clock.advance(1)
            assert await metadata(ask, version, name) == (Error.NONE, 2)


async def test_delay_is_configurable() -> None:
    async with broker_client(auto_create_delay_ms=500) as ask:
        clock = stop_time(ask)
        await metadata(ask, 12, "orders")
        clock.advance(499)
        assert await metadata(ask, 12, "orders") == (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)
        clock.advance(1)
        assert await metadata(ask, 12, "orders") == (Error.NONE, 1)
    async with broker_client(auto_create_delay_ms=0) as ask:
        stop_time(ask)
        assert await metadata(ask, 12, "orders") == (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)
        assert await metadata(ask, 12, "orders") == (Error.NONE, 1)


async def test_creates_nothing_if_broker_or_client_disables_it() -> None:
    for configs, create in (({"auto.create.topics.enable": "false"}, True), ({}, False)):
        for release in ("2.4", "4.3"):
            async with broker_client(release=release, configs=configs) as ask:
                clock = stop_time(ask)
                assert await metadata(ask, 9, "orders", create=create) == (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)
                clock.advance(1000)
                assert await metadata(ask, 9, "orders", create=create) == (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)


async def test_explicit_creation_during_the_delay_wins() -> None:
    async with broker_client() as ask:
        clock = stop_time(ask)
        await metadata(ask, 12, "orders")
        topic = {"name": "orders", "num_partitions": 5, "replication_factor": 1, "assignments": [], "configs": []}
        [created] = (await ask("CreateTopics", 7, {"topics": [topic], "timeout_ms": 1000}))["topics"]
        assert created["error_code"] == Error.NONE
        clock.advance(1000)
        assert await metadata(ask, 12, "orders") == (Error.NONE, 5)


async def test_internal_topics_are_created_as_internal() -> None:
    async with broker_client(configs={"offsets.topic.num.partitions": "7"}) as ask:
        clock = stop_time(ask)
        await metadata(ask, 12, "__consumer_offsets")
        clock.advance(40)
        [topic] = (await ask("Metadata", 12, {"topics": [{"name": "__consumer_offsets"}]}))["topics"]
    assert topic["is_internal"]
    assert len(topic["partitions"]) == 7


@pytest.mark.parametrize(("release", "error"), [("3.2", 17), ("3.3", 3)])
async def test_does_not_create_a_topic_with_a_colliding_name(release: str, error: int) -> None:
    async with broker_client(release=release, topics={"a.b": 1}) as ask:
        clock = stop_time(ask)
        assert await metadata(ask, 9, "a_b") == (error, 0)
        clock.advance(1000)
        assert await metadata(ask, 9, "a_b") == (error, 0)


async def test_creates_nothing_after_the_broker_stops() -> None:
    async with broker_client() as ask:
        clock = stop_time(ask)
        await metadata(ask, 12, "orders")
    clock.advance(1000)
    assert ask.broker.cluster.part(Topics).named("orders") is None
