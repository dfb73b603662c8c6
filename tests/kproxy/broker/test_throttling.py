"""Clients above their byte rate get a throttle time, and their next request waits for that long."""

from __future__ import annotations

import time

from dissectors.records import encode
from kproxy.broker.quotas import Quotas
from tests.kproxy.broker.data_asked import fetch_request, produce_request
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.socket_client import SocketClient, broker_client

DATA = encode([{"records": [{"value": b"v", "timestamp": FakeClock().now()}]}])
WINDOW_S = 10
MUTED_S = 0.05


def set_quota(ask: SocketClient, key: str, seconds: float, **entity: str | None) -> FakeClock:
    """Set a quota that one `DATA` uses up for so many seconds."""
    clock = ask.broker.cluster.clock = FakeClock()
    ask.broker.cluster.part(Quotas).alter(tuple(entity.items()) or (("client-id", "test"),), {key: len(DATA) / seconds})
    return clock


async def test_producer_is_muted_after_the_response() -> None:
    async with broker_client(topics={"t": 1}) as ask:
        clock = set_quota(ask, "producer_byte_rate", WINDOW_S + MUTED_S)
        started_at = time.monotonic()
        body = await ask("Produce", 9, produce_request(ask, DATA))
        assert body["throttle_time_ms"] == round(1000 * MUTED_S)
        assert body["responses"][0]["partition_responses"][0]["error_code"] == 0
        await ask("ApiVersions", 0)
        assert time.monotonic() - started_at >= MUTED_S
        other = ask.second_client()
        assert (await other("Produce", 9, produce_request(ask, DATA)))["throttle_time_ms"] == 0
        await other.hang_up()
        clock.advance(20_000)  # the window has passed
        assert (await ask("Produce", 9, produce_request(ask, DATA)))["throttle_time_ms"] == round(1000 * MUTED_S)


async def test_throttled_fetch_returns_nothing_and_does_not_count() -> None:
    async with broker_client(topics={"t": 1}) as ask:
        await ask("Produce", 9, produce_request(ask, DATA))
        set_quota(ask, "consumer_byte_rate", WINDOW_S + MUTED_S)
        for _ in range(2):
            body = await ask("Fetch", 11, fetch_request(ask))
            assert (body["throttle_time_ms"], body["responses"]) == (round(1000 * MUTED_S), [])


async def test_most_specific_quota_applies() -> None:
    async with broker_client() as ask:
        quotas, key = ask.broker.cluster.part(Quotas), "producer_byte_rate"
        assert quotas.find_applicable("alice", "app", key) is None
        for number, (entity, client) in enumerate(
            (
                ((("client-id", None),), (None, "app")),
                ((("client-id", "app"),), (None, "app")),
                ((("user", None),), ("alice", None)),
                ((("user", None), ("client-id", None)), ("alice", "app")),
                ((("user", "alice"),), ("alice", None)),
                ((("user", "alice"), ("client-id", None)), ("alice", "app")),
                ((("user", "alice"), ("client-id", "app")), ("alice", "app")),
            )
        ):
            quotas.alter(entity, {key: float(number), "consumer_byte_rate": 99.0})
            assert quotas.find_applicable("alice", "app", key) == (client, number)
        assert quotas.find_applicable("bob", "other", "request_percentage") is None


async def test_request_without_a_client_id_uses_that_of_the_first_request() -> None:
    async with broker_client(topics={"t": 1}) as ask:
        set_quota(ask, "producer_byte_rate", WINDOW_S + MUTED_S)
        await ask("ApiVersions", 0)
        named, ask.client_id = ask.client_id, None
        assert (await ask("Produce", 9, produce_request(ask, DATA)))["throttle_time_ms"] == round(1000 * MUTED_S)
        nameless = ask.second_client()
        nameless.client_id = None
        assert (await nameless("Produce", 9, produce_request(ask, DATA)))["throttle_time_ms"] == 0
        await nameless.hang_up()
        assert named == "test"
