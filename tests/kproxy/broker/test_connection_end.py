"""Requests sent before the client closed the connection are executed, as in Kafka."""

from __future__ import annotations

import asyncio

import pytest

from tests.kproxy.broker.data_requests import batch, fetch, fetch_request, log_of, offsets, produce_request
from tests.kproxy.broker.socket_client import broker_client
from tests.kproxy.frames import request


async def test_records_without_acks_are_written_after_the_connection_closes() -> None:
    async with broker_client(topics={"t": 1}) as client:
        producer = client.second_client()
        _, writer = await producer.streams(1)
        writer.write(request("Produce", 9, produce_request(client, batch(), acks=0)) * 50)
        await producer.hang_up()
        async with asyncio.timeout(5):
            while log_of(client).end_offset < 50:  # noqa: ASYNC110 - the log notifies only pending fetches
                await asyncio.sleep(0.01)
        assert offsets(await fetch(client)) == list(range(50))


async def test_half_closed_client_gets_its_responses() -> None:
    async with broker_client(topics={"t": 1}) as client:
        for _ in range(3):
            await client.send("Metadata", 12, {"topics": None})
        reader, writer = await client.streams(1)
        writer.write_eof()
        for _ in range(3):
            assert [topic["name"] for topic in (await client.receive("Metadata", 12))["topics"]] == ["t"]
        async with asyncio.timeout(5):
            assert await reader.read() == b""


async def test_no_response_follows_a_fetch_that_was_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.broker.connection._LINGER_S", 0.05)
    async with broker_client(topics={"t": 1}) as client:
        await client.send("Fetch", 12, fetch_request(client, max_wait_ms=60_000))
        await client.send("Metadata", 12, {"topics": None})
        reader, writer = await client.streams(1)
        writer.write_eof()
        async with asyncio.timeout(20):
            assert await reader.read() == b""
