"""Topics that are created because a client asked about them: later than the answer, as Kafka does it."""

from __future__ import annotations

import pytest

from dissectors.schemas.lines import line, lines
from kproxy.broker.errors import Error
from kproxy.broker.topics import Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.socket_client import Asking, asked

METADATA = 3


def stop_time(ask: Asking) -> FakeClock:
    clock = ask.broker.cluster.clock = FakeClock()
    return clock


async def metadata(ask: Asking, version: int, name: str, *, create: bool = True) -> tuple[int, int]:
    """The error of a topic, and how many partitions it has."""
    body = {"topics": [{"name": name}], "allow_auto_topic_creation": create}
    [topic] = (await ask("Metadata", version, body))["topics"]
    return topic["error_code"], len(topic["partitions"])


@pytest.mark.parametrize("release", lines())
async def test_a_topic_is_there_a_while_after_somebody_asked(release: str) -> None:
    lowest, highest = line(release).served[METADATA]
    pending = Error.UNKNOWN_TOPIC_OR_PARTITION if line(release).kraft else Error.LEADER_NOT_AVAILABLE
    async with asked(release=release, configs={"num.partitions": "2"}) as ask:
        clock = stop_time(ask)
        for version in range(lowest, highest + 1):
            name = f"asked-in-v{version}"
            assert await metadata(ask, version, name) == (pending, 0)
            clock.go_on(39)
            assert await metadata(ask, version, name) == (pending, 0)
            clock.go_on(1)
            assert await metadata(ask, version, name) == (Error.NONE, 2)


async def test_the_delay_can_be_chosen_or_left_out() -> None:
    async with asked(auto_create_delay_ms=500) as ask:
        clock = stop_time(ask)
        await metadata(ask, 12, "orders")
        clock.go_on(499)
        assert await metadata(ask, 12, "orders") == (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)
        clock.go_on(1)
        assert await metadata(ask, 12, "orders") == (Error.NONE, 1)
    async with asked(auto_create_delay_ms=0) as ask:
        stop_time(ask)
        assert await metadata(ask, 12, "orders") == (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)
        assert await metadata(ask, 12, "orders") == (Error.NONE, 1)


async def test_nothing_is_created_where_that_is_not_wanted() -> None:
    for configs, create in (({"auto.create.topics.enable": "false"}, True), ({}, False)):
        for release in ("2.4", "4.3"):
            async with asked(release=release, configs=configs) as ask:
                clock = stop_time(ask)
                assert await metadata(ask, 9, "orders", create=create) == (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)
                clock.go_on(1000)
                assert await metadata(ask, 9, "orders", create=create) == (Error.UNKNOWN_TOPIC_OR_PARTITION, 0)


async def test_a_client_that_creates_the_topic_meanwhile_has_it_as_it_wanted() -> None:
    async with asked() as ask:
        clock = stop_time(ask)
        await metadata(ask, 12, "orders")
        topic = {"name": "orders", "num_partitions": 5, "replication_factor": 1, "assignments": [], "configs": []}
        [made] = (await ask("CreateTopics", 7, {"topics": [topic], "timeout_ms": 1000}))["topics"]
        assert made["error_code"] == Error.NONE
        clock.go_on(1000)
        assert await metadata(ask, 12, "orders") == (Error.NONE, 5)


async def test_kafkas_own_topics_are_created_as_what_they_are() -> None:
    async with asked(configs={"offsets.topic.num.partitions": "7"}) as ask:
        clock = stop_time(ask)
        await metadata(ask, 12, "__consumer_offsets")
        clock.go_on(40)
        [topic] = (await ask("Metadata", 12, {"topics": [{"name": "__consumer_offsets"}]}))["topics"]
    assert topic["is_internal"]
    assert len(topic["partitions"]) == 7


@pytest.mark.parametrize(("release", "error"), [("3.2", 17), ("3.3", 3)])
async def test_a_name_that_collides_is_not_created(release: str, error: int) -> None:
    async with asked(release=release, topics={"a.b": 1}) as ask:
        clock = stop_time(ask)
        assert await metadata(ask, 9, "a_b") == (error, 0)
        clock.go_on(1000)
        assert await metadata(ask, 9, "a_b") == (error, 0)


async def test_nothing_is_created_after_the_end() -> None:
    async with asked() as ask:
        clock = stop_time(ask)
        await metadata(ask, 12, "orders")
    clock.go_on(1000)
    assert ask.broker.cluster.part(Topics).named("orders") is None
