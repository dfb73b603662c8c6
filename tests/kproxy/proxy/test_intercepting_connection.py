"""Interceptors between real sockets: what they decide about frames happens to the bytes that are sent."""

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


class Deciding:
    """Decides about Metadata requests."""

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
async def intercepting(decide: Callable[[RequestHeader], Action]) -> AsyncIterator[tuple[Peer, Peer]]:
    """The client and the server of a connection whose Metadata requests are decided about."""
    (client, relays_client), (server, relays_server) = socket.socketpair(), socket.socketpair()
    for sock in (relays_client, relays_server):
        sock.setblocking(False)
    frames = InterceptedConnection([Deciding(decide)])
    connection = InterceptingConnection(relays_client, relays_server, memoryview(bytearray(1 << 16)), None, frames)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(connection.run())
        with Peer(client) as one, Peer(server) as other:
            yield one, other
        connection.abort()  # a side that is delayed does not see the end of its peer


def metadata(number: int) -> bytes:
    return request("Metadata", 1, {"topics": None}, correlation_id=number)


def heartbeat(number: int) -> bytes:
    return request("Heartbeat", 0, {"group_id": "g"}, correlation_id=number)


@pytest.mark.parametrize("together", [True, False], ids=["one chunk", "frame by frame"])
async def test_a_delayed_frame_arrives_late_and_in_its_place(together: bool) -> None:
    loop = asyncio.get_running_loop()
    async with intercepting(lambda header: Delay(DELAY_S)) as (client, server):
        frames = [heartbeat(1), metadata(2), heartbeat(3)]
        began = loop.time()
        for chunk in [b"".join(frames)] if together else frames:
            await client.send(chunk)
            if chunk == frames[0]:
                assert await server.receive(len(chunk)) == chunk
        expected = b"".join(frames if together else frames[1:])
        assert await server.receive(len(expected)) == expected
        assert loop.time() - began >= DELAY_S


async def test_the_other_direction_is_not_delayed() -> None:
    async with intercepting(lambda header: Delay(3600)) as (client, server):
        await client.send(heartbeat(1))
        assert await server.receive(len(heartbeat(1))) == heartbeat(1)
        await client.send(metadata(2))
        beat = response("Heartbeat", 0, {}, correlation_id=1)
        await server.send(beat)
        assert await client.receive(len(beat)) == beat


async def test_several_delays_add_up() -> None:
    loop = asyncio.get_running_loop()
    async with intercepting(lambda header: Delay(DELAY_S)) as (client, server):
        began = loop.time()
        for number in range(3):
            await client.send(metadata(number))
        for number, due in zip(range(3), itertools.count(DELAY_S, DELAY_S)):
            assert await server.receive(len(metadata(number))) == metadata(number)
            assert loop.time() - began >= due


async def test_a_request_is_answered_or_dropped_without_the_server() -> None:
    answer = response("Metadata", 1, {"brokers": []}, correlation_id=1)
    actions: dict[int, Action] = {1: Answer(answer), 2: Drop()}
    async with intercepting(lambda header: actions.get(header.correlation_id, FORWARD)) as (client, server):
        await client.send(metadata(1))
        assert await client.receive(len(answer)) == answer
        await client.send(metadata(2))
        await client.send(metadata(3))
        assert await server.receive(len(metadata(3))) == metadata(3)


async def test_a_connection_is_closed_instead_of_a_frame() -> None:
    async with intercepting(lambda header: CloseConnection()) as (client, server):
        await client.send(heartbeat(1) + metadata(2) + heartbeat(3))
        assert await server.rest() == heartbeat(1)
        assert await client.rest() == b""
