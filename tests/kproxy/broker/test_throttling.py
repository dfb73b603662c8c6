"""Clients above their byte rate get a throttle time, and their next request waits for that long."""

from __future__ import annotations

import time

from dissectors.records import encode
from kproxy.broker.quotas import Quotas
from tests.kproxy.broker.data_asked import fetched, produced
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.socket_client import Asking, asked

DATA = encode([{"records": [{"value": b"v", "timestamp": FakeClock().now()}]}])
WINDOW_S = 10
MUTED_S = 0.05


def limit(ask: Asking, key: str, seconds: float, **entity: str | None) -> FakeClock:
    """Set a quota that one `DATA` uses up for so many seconds."""
    clock = ask.broker.cluster.clock = FakeClock()
    ask.broker.cluster.part(Quotas).alter(tuple(entity.items()) or (("client-id", "test"),), {key: len(DATA) / seconds})
    return clock


async def test_a_producer_waits_after_the_response() -> None:
    async with asked(topics={"t": 1}) as ask:
        clock = limit(ask, "producer_byte_rate", WINDOW_S + MUTED_S)
        began = time.monotonic()
        body = await ask("Produce", 9, produced(ask, DATA))
        assert body["throttle_time_ms"] == round(1000 * MUTED_S)
        assert body["responses"][0]["partition_responses"][0]["error_code"] == 0
        await ask("ApiVersions", 0)
        assert time.monotonic() - began >= MUTED_S
        other = ask.another()
        assert (await other("Produce", 9, produced(ask, DATA)))["throttle_time_ms"] == 0
        await other.hang_up()
        clock.go_on(20_000)  # the window has passed
        assert (await ask("Produce", 9, produced(ask, DATA)))["throttle_time_ms"] == round(1000 * MUTED_S)


async def test_a_throttled_fetch_returns_nothing_and_does_not_count() -> None:
    async with asked(topics={"t": 1}) as ask:
        await ask("Produce", 9, produced(ask, DATA))
        limit(ask, "consumer_byte_rate", WINDOW_S + MUTED_S)
        for _ in range(2):
            body = await ask("Fetch", 11, fetched(ask))
            assert (body["throttle_time_ms"], body["responses"]) == (round(1000 * MUTED_S), [])


async def test_the_most_specific_quota_applies() -> None:
    async with asked() as ask:
        quotas, key = ask.broker.cluster.part(Quotas), "producer_byte_rate"
        assert quotas.applying("alice", "app", key) is None
        for number, (entity, who) in enumerate(
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
            assert quotas.applying("alice", "app", key) == (who, number)
        assert quotas.applying("bob", "other", "request_percentage") is None


async def test_a_request_without_a_client_id_is_one_of_the_first_request() -> None:
    async with asked(topics={"t": 1}) as ask:
        limit(ask, "producer_byte_rate", WINDOW_S + MUTED_S)
        await ask("ApiVersions", 0)
        named, ask.client_id = ask.client_id, None
        assert (await ask("Produce", 9, produced(ask, DATA)))["throttle_time_ms"] == round(1000 * MUTED_S)
        nameless = ask.another()
        nameless.client_id = None
        assert (await nameless("Produce", 9, produced(ask, DATA)))["throttle_time_ms"] == 0
        await nameless.hang_up()
        assert named == "test"
