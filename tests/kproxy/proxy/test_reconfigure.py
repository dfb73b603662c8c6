"""A running relay changes its listeners, and drains."""

from __future__ import annotations

import asyncio
import time

import pytest

from kproxy.proxy.address import parse_listen, parse_upstream
from kproxy.proxy.listener import Listener
from tests.kproxy.proxy.peers import Broker, Peer, connected, relaying


def listener_to(listen: str, broker: Broker) -> Listener:
    return Listener(parse_listen(listen), parse_upstream(broker.address))


async def test_reconfigure_changes_listeners_and_keeps_connections() -> None:
    with Broker() as first, Broker() as second, Broker(down=True) as spare, Broker(down=True) as second_spare:
        addresses = [spare.address, second_spare.address]
        for spare_broker in (spare, second_spare):
            spare_broker.__exit__()
        async with relaying(first.address, listen=addresses[0]) as relay, connected(relay, first) as (client, server):
            assert await relay.reconfigure([listener_to(addresses[0], second), listener_to(addresses[1], first)]) == []
            assert relay.pairs == [(addresses[0], second.address), (addresses[1], first.address)]
            with await Peer.connect(addresses[0]), await second.accept():
                pass
            with await Peer.connect(addresses[1]), await first.accept():
                pass
            await client.send(b"open before")
            assert await server.receive(11) == b"open before"
            assert await relay.reconfigure([listener_to(addresses[1], first)]) == []
            with pytest.raises(ConnectionRefusedError):
                await Peer.connect(addresses[0])


async def test_occupied_address_is_reported_and_the_others_are_used() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay:
            own_address = f"127.0.0.1:{int(relay.addresses[0].rpartition(':')[2])}"
            listeners = [listener_to("127.0.0.1:0", broker), listener_to(broker.address, broker)]
            [failure] = await relay.reconfigure(listeners)
            assert failure.startswith(f"{broker.address} is already in use")
            assert relay.pairs == [(own_address, broker.address)]


async def test_drain_closes_idle_connections_and_keeps_busy_ones() -> None:
    with Broker() as broker:
        async with (
            relaying(broker.address) as relay,
            connected(relay, broker) as (idle, _),
            connected(relay, broker) as (busy, server),
            asyncio.TaskGroup() as tasks,
        ):
            address = relay.addresses[0]
            tasks.create_task(relay.drain(1.2))
            for _ in range(10):
                await busy.send(b"x")
                assert await server.receive(1) == b"x"
                await asyncio.sleep(0.1)
            assert await idle.rest() == b""
            with pytest.raises(ConnectionRefusedError):
                await Peer.connect(address)
            await busy.send(b"y")
            assert await server.receive(1) == b"y"


async def test_drain_ends_at_once_if_requested_again() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            second_request = asyncio.Event()
            second_request.set()
            await relay.drain(60, second_request)
            await client.send(b"y")
            assert await server.receive(1) == b"y"


async def test_drain_ends_at_once_without_connections() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay:
            started_at = time.monotonic()
            await relay.drain(60)
            assert time.monotonic() - started_at < 5
