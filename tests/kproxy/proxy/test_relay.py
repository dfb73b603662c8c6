"""The relay with real sockets: bytes, ends, resets, back-pressure, and upstreams that are down."""

from __future__ import annotations

import asyncio
import hashlib
import random
import socket
import tracemalloc
from contextlib import AsyncExitStack

import pytest

from kproxy.proxy import client_opening as opening_module
from kproxy.proxy.address import parse_listen, parse_upstream
from kproxy.proxy.events import Event, UpstreamReachable, UpstreamUnreachable
from kproxy.proxy.listener import Listener
from kproxy.proxy.relay import Relay, serve
from kproxy.proxy.side import HoldReason
from kproxy.proxy.sockets import connect
from tests.kproxy.proxy.peers import Broker, Peer, connected, relaying, send_forever, until

MIB = 1024 * 1024


async def _send_in_pieces(peer: Peer, data: bytes, seed: int) -> None:
    rng = random.Random(seed)
    position = 0
    while position < len(data):
        size = rng.choice([1, 7, 100, 5000, 70_000])
        await peer.send(data[position : position + size])
        position += size
        if rng.random() < 0.1:
            await asyncio.sleep(0)
    peer.finish()


async def test_bytes_are_unchanged_on_several_connections_at_once() -> None:
    async def exchange(client: Peer, server: Peer, seed: int) -> None:
        request, response = random.Random(seed).randbytes(300_000 + seed), random.Random(-seed - 1).randbytes(400_000)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_send_in_pieces(client, request, seed))
            tasks.create_task(_send_in_pieces(server, response, -seed))
            received_by_server, received_by_client = tasks.create_task(server.rest()), tasks.create_task(client.rest())
        assert hashlib.sha256(received_by_server.result()).digest() == hashlib.sha256(request).digest()
        assert hashlib.sha256(received_by_client.result()).digest() == hashlib.sha256(response).digest()

    with Broker() as broker:
        async with relaying(broker.address) as relay, AsyncExitStack() as stack:
            pairs = [await stack.enter_async_context(connected(relay, broker)) for _ in range(6)]
            async with asyncio.TaskGroup() as exchanges:
                for seed, (client, server) in enumerate(pairs):
                    exchanges.create_task(exchange(client, server, seed))
            assert relay.totals.request_bytes == 6 * 300_000 + sum(range(6))
            assert relay.totals.response_bytes == 6 * 400_000


async def test_relay_serves_hundreds_of_connections_at_once() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay:
            peers = [await Peer.connect(relay.addresses[0]) for _ in range(300)]
            servers = [await broker.accept() for _ in peers]
            await asyncio.gather(*(peer.send(b"ping") for peer in peers))
            assert {await server.receive(4) for server in servers} == {b"ping"}
            await asyncio.gather(*(server.send(b"pong") for server in servers))
            assert {await peer.receive(4) for peer in peers} == {b"pong"}
            for peer in peers + servers:
                peer.socket.close()


async def test_half_closed_client_still_gets_its_response() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            await client.send(b"question")
            client.finish()
            assert await server.rest() == b"question"
            await server.send(b"answer")
            server.finish()
            assert await client.rest() == b"answer"


async def test_half_closed_server_still_gets_requests() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            server.finish()
            assert await client.rest() == b""
            await client.send(b"question")
            client.finish()
            assert await server.rest() == b"question"


async def test_server_may_send_first() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            await server.send(b"hello")
            assert await client.receive(5) == b"hello"


@pytest.mark.parametrize("pending", [b"", b"said before"])
async def test_reset_reaches_the_server(pending: bytes) -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            await client.send(pending)
            assert await server.receive(len(pending)) == pending
            client.reset()
            with pytest.raises(ConnectionResetError):
                await server.receive(1)


async def test_reset_reaches_the_client() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            await client.send(b"question")
            assert await server.receive(8) == b"question"
            server.reset()
            with pytest.raises(ConnectionResetError):
                await client.receive(1)


async def test_reset_reaches_a_client_that_half_closes_at_the_same_moment() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            await client.send(b"x")
            assert await server.receive(1) == b"x"
            client.finish()
            server.reset()
            with pytest.raises(ConnectionResetError):
                await client.receive(1)


@pytest.mark.parametrize("finisher", ["client", "server"])
async def test_reset_passes_through_after_the_same_side_half_closed(finisher: str) -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            ending, other = (client, server) if finisher == "client" else (server, client)
            ending.finish()
            assert await other.rest() == b""
            ending.reset()
            with pytest.raises(ConnectionError):
                await send_forever(other, b"more")


@pytest.mark.parametrize("finisher", ["client", "server"])
async def test_reset_passes_through_after_the_other_side_half_closed(finisher: str) -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            finished, ending = (client, server) if finisher == "client" else (server, client)
            finished.finish()
            assert await ending.rest() == b""
            ending.reset()
            with pytest.raises(ConnectionResetError):
                await finished.receive(1)


async def test_closing_server_ends_a_client_that_still_sends() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            server.socket.close()
            assert await client.receive(1) == b""
            with pytest.raises(ConnectionError):
                await send_forever(client, b"more")
            async with connected(relay, broker) as (second, second_server):
                await second.send(b"again")
                assert await second_server.receive(5) == b"again"


async def test_slow_server_pauses_the_client_in_bounded_memory() -> None:
    content = bytes(64 * MIB)
    with Broker() as broker:
        async with relaying(broker.address) as relay, connected(relay, broker) as (client, server):
            server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            tracemalloc.start()
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(client.send(content))
                previous = -1
                while relay.totals.request_bytes > previous:
                    previous = relay.totals.request_bytes
                    await asyncio.sleep(0.05)
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert not sending.done()
                assert peak < 2 * MIB
                received = 0
                while received < len(content):
                    received += len(await asyncio.get_running_loop().sock_recv(server.socket, MIB))
            assert relay.totals.request_bytes == len(content)


async def test_bytes_sent_before_the_upstream_connects_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_late(*args: object) -> socket.socket:
        await may_connect.wait()
        return await connect(*args)  # type: ignore[arg-type]

    may_connect = asyncio.Event()
    monkeypatch.setattr(opening_module, "connect", connect_late)
    with Broker() as broker:
        async with relaying(broker.address) as relay:
            with await Peer.connect(relay.addresses[0]) as client:
                await client.send(b"early")
                client.finish()
                await asyncio.sleep(0.01)
                may_connect.set()
                with await broker.accept() as server:
                    assert await server.rest() == b"early"


async def test_clients_that_send_at_once_are_all_served() -> None:
    async def exchange(number: int) -> bytes:
        request = b"%03d" % number
        with await Peer.connect(relay.addresses[0]) as client:
            await client.send(request)
            return request + await client.receive(3)

    async def echo() -> None:
        for _ in range(300):
            with await broker.accept() as server:
                await server.send(await server.receive(3))

    with Broker() as broker:
        async with relaying(broker.address) as relay, asyncio.TaskGroup() as tasks:
            tasks.create_task(echo())
            exchanges = [tasks.create_task(exchange(number)) for number in range(300)]
    assert [task.result() for task in exchanges] == [b"%03d" % number * 2 for number in range(300)]


async def test_clients_are_turned_away_only_while_the_upstream_is_down() -> None:
    events: list[Event] = []
    with Broker(down=True) as broker:
        async with relaying(broker.address, events=events) as relay:
            for _ in range(3):
                with await Peer.connect(relay.addresses[0]) as client, pytest.raises(ConnectionResetError):
                    await client.receive(1)
            assert relay.totals.turned_away == 3
            assert events == [UpstreamUnreachable(broker.address, "connection refused")]
            broker.start()
            async with connected(relay, broker) as (client, server):
                await client.send(b"back")
                assert await server.receive(4) == b"back"
            assert events[1:] == [UpstreamReachable(broker.address)]


async def test_every_listener_connects_to_its_own_upstream() -> None:
    with Broker() as first, Broker() as second:
        pairs = [Listener(parse_listen("127.0.0.1:0"), parse_upstream(broker.address)) for broker in (first, second)]
        async with asyncio.timeout(10), serve(pairs) as relay:
            for address, broker in zip(relay.addresses, (first, second), strict=True):
                with await Peer.connect(address) as client, await broker.accept() as server:
                    await client.send(address.encode())
                    assert await server.receive(len(address)) == address.encode()


async def test_shutdown_closes_both_sides_after_sending_pending_bytes() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay:
            [address] = relay.addresses
            client = await Peer.connect(address)
            server = await broker.accept()
            await server.send(b"last words")
            await until(lambda: relay.totals.response_bytes == 10)
        with client, server:
            assert await client.rest() == b"last words"
            assert await server.rest() == b""
            with pytest.raises(ConnectionRefusedError):
                await Peer.connect(address)


def is_held(relay: Relay) -> bool:
    """Return whether reading from the only client is paused because the server does not read."""
    [connection] = relay.clients._connections.values()
    return connection is not None and HoldReason.PEER in connection._client._held


async def test_peer_that_reads_nothing_does_not_delay_shutdown() -> None:
    async def send_until_stopped() -> None:
        with pytest.raises(ConnectionError):
            await send_forever(client, bytes(MIB))

    with Broker() as broker:
        async with asyncio.TaskGroup() as tasks, relaying(broker.address) as relay:
            client, server = await Peer.connect(relay.addresses[0]), await broker.accept()
            tasks.create_task(send_until_stopped())
            previous = -1
            while relay.totals.request_bytes > previous or not is_held(relay):
                previous = relay.totals.request_bytes
                await asyncio.sleep(0.05)
        with client, server, pytest.raises(ConnectionResetError):  # no orderly end: the data is incomplete
            await server.rest()


async def test_unresponsive_upstream_does_not_delay_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_never(*_: object) -> socket.socket:
        connect_started.set()
        await asyncio.Event().wait()
        raise AssertionError

    connect_started = asyncio.Event()
    monkeypatch.setattr(opening_module, "connect", connect_never)
    async with relaying("127.0.0.1:1") as relay:
        client = await Peer.connect(relay.addresses[0])
        await connect_started.wait()
    with client:
        assert await client.rest() == b""


async def test_client_accepted_during_shutdown_is_closed() -> None:
    with Broker() as broker:
        async with relaying(broker.address) as relay:
            client = Peer(socket.socket())
            client.socket.connect_ex(("127.0.0.1", int(relay.addresses[0].rpartition(":")[2])))
            [[acceptor]] = [bound.acceptors for bound in relay.listeners.open]
            acceptor._accept()  # its task is created but has not started
        with client:
            assert await client.rest() == b""


async def test_exception_in_the_block_propagates_unchanged() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with relaying("127.0.0.1:1"):
            raise KeyError("mine")


async def test_cancelled_relay_closes_its_connections() -> None:
    async def relay_forever() -> None:
        async with relaying(broker.address) as relay:
            addresses.extend(relay.addresses)
            await asyncio.Event().wait()

    addresses: list[str] = []
    with Broker() as broker:
        async with asyncio.TaskGroup() as tasks:
            relay_task = tasks.create_task(relay_forever())
            await until(lambda: addresses)
            with await Peer.connect(addresses[0]) as client, await broker.accept() as server:
                relay_task.cancel()
                assert await client.rest() == b""
                assert await server.rest() == b""
