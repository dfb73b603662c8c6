"""A relay that runs gets other listeners, and drains."""

from __future__ import annotations

import asyncio
import time

import pytest

from kproxy.proxy.address import parse_listen, parse_upstream
from kproxy.proxy.listener import Listener
from tests.kproxy.proxy.peers import Broker, Peer, connected, relaying


def leading(listen: str, broker: Broker) -> Listener:
    return Listener(parse_listen(listen), parse_upstream(broker.address))


async def test_listeners_are_retargeted_added_and_removed_and_connections_stay() -> None:
    with Broker() as first, Broker() as second, Broker(down=True) as spare, Broker(down=True) as another:
        places = [spare.address, another.address]
        for each in (spare, another):
            each.__exit__()
        async with relaying(first.address, listen=places[0]) as relay, connected(relay, first) as (client, server):
            assert await relay.reconfigure([leading(places[0], second), leading(places[1], first)]) == []
            assert relay.pairs == [(places[0], second.address), (places[1], first.address)]
            with await Peer.connect(places[0]), await second.accept():
                pass
            with await Peer.connect(places[1]), await first.accept():
                pass
            await client.send(b"open before")
            assert await server.receive(11) == b"open before"
            assert await relay.reconfigure([leading(places[1], first)]) == []
            with pytest.raises(ConnectionRefusedError):
                await Peer.connect(places[0])


async def test_an_address_that_is_taken_is_said_and_the_others_are_listened_on() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay:
            own = f"127.0.0.1:{int(relay.addresses[0].rpartition(':')[2])}"
            wanted = [leading("127.0.0.1:0", broker), leading(broker.address, broker)]
            [failure] = await relay.reconfigure(wanted)
            assert failure.startswith(f"{broker.address} is already in use")
            assert relay.pairs == [(own, broker.address)]


async def test_draining_closes_what_is_quiet_and_leaves_what_is_busy() -> None:
    with Broker() as broker:
        async with (
            relaying(broker.address) as relay,
            connected(relay, broker) as (quiet, _),
            connected(relay, broker) as (busy, server),
            asyncio.TaskGroup() as tasks,
        ):
            address = relay.addresses[0]
            tasks.create_task(relay.drain(1.2))
            for _ in range(10):
                await busy.send(b"x")
                assert await server.receive(1) == b"x"
                await asyncio.sleep(0.1)
            assert await quiet.rest() == b""
            with pytest.raises(ConnectionRefusedError):
                await Peer.connect(address)
            await busy.send(b"y")
            assert await server.receive(1) == b"y"


async def test_draining_ends_when_somebody_asks_again() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            at_once = asyncio.Event()
            at_once.set()
            await relay.drain(60, at_once)
            await client.send(b"y")
            assert await server.receive(1) == b"y"


async def test_draining_ends_at_once_where_nobody_is_connected() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay:
            began = time.monotonic()
            await relay.drain(60)
            assert time.monotonic() - began < 5
