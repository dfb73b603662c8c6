"""Clients above their byte rate get a throttle time, and their next request waits for that long."""

from __future__ import annotations

import time

from dissectors.records import encode
from kproxy.broker.quotas import Quotas
from tests.kproxy.broker.data_requests import fetch_request, produce_request
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.socket_client import SocketClient, broker_client

DATA = encode([{"records": [{"value": b"v", "timestamp": FakeClock().now()}]}])
WINDOW_S = 10
MUTED_S = 0.05


def set_quota(client: SocketClient, key: str, seconds: float, **entity: str | None) -> FakeClock:
    """Set a quota that sending `DATA` once uses up for this many seconds."""
    clock = client.broker.cluster.clock = FakeClock()
    client.broker.cluster.part(Quotas).alter(
        tuple(entity.items()) or (("client-id", "test"),), {key: len(DATA) / seconds}
    )
    return clock


async def test_producer_is_muted_after_the_response() -> None:
    async with broker_client(topics={"t": 1}) as client:
        clock = set_quota(client, "producer_byte_rate", WINDOW_S + MUTED_S)
        started_at = time.monotonic()
        body = await client("Produce", 9, produce_request(client, DATA))
        assert body["throttle_time_ms"] == round(1000 * MUTED_S)
        assert body["responses"][0]["partition_responses"][0]["error_code"] == 0
        await client("ApiVersions", 0)
        assert time.monotonic() - started_at >= MUTED_S
        other = client.second_client()
        assert (await other("Produce", 9, produce_request(client, DATA)))["throttle_time_ms"] == 0
        await other.hang_up()
        clock.advance(20_000)  # the window has passed
        assert (await client("Produce", 9, produce_request(client, DATA)))["throttle_time_ms"] == round(1000 * MUTED_S)


async def test_throttled_fetch_returns_nothing_and_does_not_count() -> None:
    async with broker_client(topics={"t": 1}) as client:
        await client("Produce", 9, produce_request(client, DATA))
        set_quota(client, "consumer_byte_rate", WINDOW_S + MUTED_S)
        for _ in range(2):
            body = await client("Fetch", 11, fetch_request(client))
            assert (body["throttle_time_ms"], body["responses"]) == (round(1000 * MUTED_S), [])


async def test_most_specific_quota_applies() -> None:
    async with broker_client() as client:
        quotas, key = client.broker.cluster.part(Quotas), "producer_byte_rate"
        assert quotas.find_applicable("alice", "app", key) is None
        for number, (entity, quota_owner) in enumerate(
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
            assert quotas.find_applicable("alice", "app", key) == (quota_owner, number)
        assert quotas.find_applicable("bob", "other", "request_percentage") is None


async def test_missing_client_id_defaults_to_that_of_the_first_request() -> None:
    async with broker_client(topics={"t": 1}) as client:
        set_quota(client, "producer_byte_rate", WINDOW_S + MUTED_S)
        await client("ApiVersions", 0)
        first_client_id, client.client_id = client.client_id, None
        assert (await client("Produce", 9, produce_request(client, DATA)))["throttle_time_ms"] == round(1000 * MUTED_S)
        nameless_client = client.second_client()
        nameless_client.client_id = None
        assert (await nameless_client("Produce", 9, produce_request(client, DATA)))["throttle_time_ms"] == 0
        await nameless_client.hang_up()
        assert first_client_id == "test"
