"""Interceptors between real sockets: their decisions about frames apply to the bytes that are sent."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from dissectors.connections.events import Direction
from dissectors.interception.intercepted_connection import InterceptedConnection
from dissectors.interception.interceptor import FORWARD, Action, Answer, CloseConnection, Delay, Drop, RequestHeader
from kproxy.proxy.intercepting_connection import InterceptingConnection
from tests.kproxy.frames import request, response
from tests.kproxy.proxy.peers import Peer

DELAY_S = 0.1


class MetadataInterceptor:
    """An interceptor that calls `decide` for every Metadata request."""

    answers = True

    def __init__(self, decide: Callable[[RequestHeader], Action]) -> None:
        self._decide = decide

    def wants(self, direction: Direction, api_key: int, api_version: int) -> bool:
        return direction is Direction.REQUEST and api_key == 3

    def on_request(self, frame: bytes, header: RequestHeader) -> Action:
        return self._decide(header)

    def on_response(self, frame: bytes, header: RequestHeader) -> Action:
        return FORWARD


@asynccontextmanager
async def intercepted_peers(decide: Callable[[RequestHeader], Action]) -> AsyncIterator[tuple[Peer, Peer]]:
    """Yield the client and the server of a connection whose Metadata requests are intercepted."""
    (client, relay_to_client), (server, relay_to_server) = socket.socketpair(), socket.socketpair()
    for sock in (relay_to_client, relay_to_server):
        sock.setblocking(False)
    intercepted = InterceptedConnection([MetadataInterceptor(decide)])
    connection = InterceptingConnection(
        relay_to_client, relay_to_server, memoryview(bytearray(1 << 16)), None, intercepted
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(connection.run())
        with Peer(client) as client_peer, Peer(server) as server_peer:
            yield client_peer, server_peer
        connection.abort()  # a delayed side does not notice that its peer has closed


def metadata(number: int) -> bytes:
    return request("Metadata", 1, {"topics": None}, correlation_id=number)


def heartbeat(number: int) -> bytes:
    return request("Heartbeat", 0, {"group_id": "g"}, correlation_id=number)


@pytest.mark.parametrize("sent_together", [True, False], ids=["one chunk", "frame by frame"])
async def test_delayed_frame_arrives_late_and_in_order(sent_together: bool) -> None:
    loop = asyncio.get_running_loop()
    async with intercepted_peers(lambda header: Delay(DELAY_S)) as (client, server):
        frames = [heartbeat(1), metadata(2), heartbeat(3)]
        started_at = loop.time()
        for chunk in [b"".join(frames)] if sent_together else frames:
            await client.send(chunk)
            if chunk == frames[0]:
                assert await server.receive(len(chunk)) == chunk
        expected = b"".join(frames if sent_together else frames[1:])
        assert await server.receive(len(expected)) == expected
        assert loop.time() - started_at >= DELAY_S


async def test_delay_does_not_affect_the_other_direction() -> None:
    async with intercepted_peers(lambda header: Delay(3600)) as (client, server):
        await client.send(heartbeat(1))
        assert await server.receive(len(heartbeat(1))) == heartbeat(1)
        await client.send(metadata(2))
        heartbeat_response = response("Heartbeat", 0, {}, correlation_id=1)
        await server.send(heartbeat_response)
        assert await client.receive(len(heartbeat_response)) == heartbeat_response


async def test_several_delays_add_up() -> None:
    loop = asyncio.get_running_loop()
    async with intercepted_peers(lambda header: Delay(DELAY_S)) as (client, server):
        started_at = loop.time()
        for number in range(3):
            await client.send(metadata(number))
        for number, due_s in zip(range(3), itertools.count(DELAY_S, DELAY_S)):
            assert await server.receive(len(metadata(number))) == metadata(number)
            assert loop.time() - started_at >= due_s


async def test_answered_and_dropped_requests_do_not_reach_the_server() -> None:
    metadata_response = response("Metadata", 1, {"brokers": []}, correlation_id=1)
    actions: dict[int, Action] = {1: Answer(metadata_response), 2: Drop()}
    async with intercepted_peers(lambda header: actions.get(header.correlation_id, FORWARD)) as (client, server):
        await client.send(metadata(1))
        assert await client.receive(len(metadata_response)) == metadata_response
        await client.send(metadata(2))
        await client.send(metadata(3))
        assert await server.receive(len(metadata(3))) == metadata(3)


async def test_interceptor_can_close_the_connection() -> None:
    async with intercepted_peers(lambda header: CloseConnection()) as (client, server):
        await client.send(heartbeat(1) + metadata(2) + heartbeat(3))
        assert await server.rest() == heartbeat(1)
        assert await client.rest() == b""
