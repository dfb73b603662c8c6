"""The relay with a tap: it reports to the inspector, and the inspector cannot harm it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dissectors.connections.events import Direction
from kproxy.proxy import tap_messages
from kproxy.proxy.events import Event, InspectorLost
from kproxy.proxy.sockets import connect
from kproxy.proxy.tap import Tap
from tests.kproxy.proxy.accounting import check, frame, read_all
from tests.kproxy.proxy.peers import Broker, Peer, connected, relaying, send_forever, until, wait_until_settled

KIB = 1024
MIB = 1024 * KIB


class Inspector:
    """The inspector's end of a tap."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def read_to_the_end(self) -> asyncio.Future[list[tap_messages.Message]]:
        """Read to the end in a thread, as another process would."""
        return asyncio.get_running_loop().run_in_executor(None, read_all, self.socket)


@contextmanager
def tap_and_inspector(*, limit: int = 64 * MIB, strict: bool = False) -> Iterator[tuple[Tap, Inspector]]:
    ours, theirs = socket.socketpair()
    with theirs:
        yield Tap(ours, node="node", limit=limit, strict=strict), Inspector(theirs)


async def test_reports_the_events_of_a_connection() -> None:
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, tap=tap) as relay, connected(relay, broker) as (client, server):
            listener = relay.addresses[0]
            name = "{}:{}".format(*client.socket.getsockname())
            await client.send(frame(10))
            assert await server.receive(14) == frame(10)
            await server.send(frame(20))
            assert await client.receive(24) == frame(20)
            client.finish()
            assert await server.rest() == b""
            server.finish()
            assert await client.rest() == b""
            await until(lambda: relay.totals.response_bytes == 24)
        hello, opened, *messages, closed, bye = await reading
    assert isinstance(hello, tap_messages.Hello)
    assert (hello.node, hello.listeners) == ("node", [(listener, broker.address)])
    assert isinstance(opened, tap_messages.Open)
    assert opened[2:] == (name, broker.address, listener, False, None, None, False)
    assert [(message[:2], message[3]) for message in messages] == [
        ((1, Direction.REQUEST), frame(10)),
        ((1, Direction.RESPONSE), frame(20)),
        ((1, Direction.REQUEST), "fin"),
        ((1, Direction.RESPONSE), "fin"),
    ]
    assert isinstance(closed, tap_messages.Close)
    assert closed[2:] == ("client", "fin", 14, 24)
    assert isinstance(bye, tap_messages.Bye)
    assert bye[1:] == (1, 14, 24, 0, 0, 0)
    times = [opened.at, *(message[2] for message in messages), closed.at, bye.at]
    assert times == sorted(times)


async def test_reset_after_a_fin_from_the_same_side_is_reported() -> None:
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, tap=tap) as relay, connected(relay, broker) as (client, server):
            client.finish()
            assert await server.rest() == b""
            client.reset()
            with pytest.raises(ConnectionError):
                await send_forever(server, frame(10))
        _, _, *messages, closed, _ = await reading
    end_events = [(message.direction, message.how) for message in messages if isinstance(message, tap_messages.End)]
    assert end_events == [(Direction.REQUEST, "fin"), (Direction.REQUEST, "reset")]
    assert isinstance(closed, tap_messages.Close)
    assert (closed.by, closed.how) == ("client", "reset")


@pytest.mark.parametrize(("reset_by", "direction"), [("client", Direction.REQUEST), ("server", Direction.RESPONSE)])
async def test_reports_the_side_that_reset_a_connection(reset_by: str, direction: Direction) -> None:
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, tap=tap) as relay, connected(relay, broker) as (client, server):
            await client.send(b"x")
            await server.receive(1)
            (client if reset_by == "client" else server).reset()
            with pytest.raises(ConnectionResetError):
                await (server if reset_by == "client" else client).receive(1)
        messages = await reading
    [end_message] = [message for message in messages if isinstance(message, tap_messages.End)]
    [close_message] = [message for message in messages if isinstance(message, tap_messages.Close)]
    assert (end_message.direction, end_message.how) == (direction, "reset")
    assert (close_message.by, close_message.how) == (reset_by, "reset")


async def test_reports_a_client_that_was_turned_away() -> None:
    with Broker(down=True) as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client, pytest.raises(ConnectionResetError):
                await client.receive(1)
        _, opened, closed, bye = await reading
    assert isinstance(opened, tap_messages.Open)
    assert opened.server == broker.address
    assert isinstance(closed, tap_messages.Close)
    assert (closed.by, closed.how) == ("proxy", "unreachable")
    assert isinstance(bye, tap_messages.Bye)
    assert bye.connections == 1


@pytest.mark.parametrize(("number", "how"), [(errno.EMFILE, "out of descriptors"), (errno.ENOBUFS, "out of memory")])
async def test_reports_a_resource_shortage_of_the_proxy(monkeypatch: pytest.MonkeyPatch, number: int, how: str) -> None:
    async def fail(*_: Any) -> socket.socket:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("kproxy.proxy.client_opening.connect", fail)
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, tap=tap) as relay:
            with await Peer.connect(relay.addresses[0]) as client, pytest.raises(ConnectionResetError):
                await client.receive(1)
        messages = await reading
    [closed] = [message for message in messages if isinstance(message, tap_messages.Close)]
    assert (closed.by, closed.how) == ("proxy", how)


async def test_reports_connections_closed_by_the_shutdown() -> None:
    with Broker() as broker, tap_and_inspector() as (tap, inspector):
        reading = inspector.read_to_the_end()
        async with relaying(broker.address, tap=tap) as relay:
            client, server = await Peer.connect(relay.addresses[0]), await broker.accept()
        client.socket.close()
        server.socket.close()
        messages = await reading
    [closed] = [message for message in messages if isinstance(message, tap_messages.Close)]
    assert (closed.by, closed.how) == ("proxy", "shutdown")


async def _exchange(client: Peer, server: Peer, content: bytes) -> bytes:
    """Send `content` to the server and a frame back; return the bytes that the server received."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(client.send(content))
        received = await server.receive(len(content))
        await server.send(frame(100))
        assert await client.receive(104) == frame(100)
    return received


async def test_stuck_inspector_does_not_slow_the_relay_and_every_byte_is_counted() -> None:
    content = b"".join(frame(size) for size in (100_000, 10, 3 * MIB, 0, 40) * 5)
    with Broker() as broker, tap_and_inspector(limit=4 * MIB) as (tap, inspector):
        async with relaying(broker.address, tap=tap) as relay:
            for _ in range(3):
                async with connected(relay, broker) as (client, server):
                    assert await _exchange(client, server, content) == content
                    assert tap.queued < 5 * MIB
            assert tap.full
            reading = inspector.read_to_the_end()
        messages = await reading
    relayed = {(number, Direction.REQUEST): content for number in (1, 2, 3)}
    relayed |= {(number, Direction.RESPONSE): frame(100) for number in (1, 2, 3)}
    assert check(messages, relayed)["dropped_bytes"] > 30 * MIB
    totals = [message[-2:] for message in messages if isinstance(message, tap_messages.Close)]
    assert totals == [(len(content), 104)] * 3


async def test_strict_tap_pauses_the_relay_and_loses_nothing() -> None:
    content = b"".join(frame(size) for size in (100_000, 10, 3 * MIB, 0, 40))
    with Broker() as broker, tap_and_inspector(limit=256 * KIB, strict=True) as (tap, inspector):
        async with relaying(broker.address, tap=tap) as relay, connected(relay, broker) as (client, server):
            exchange = asyncio.ensure_future(_exchange(client, server, content))
            await until(lambda: tap.queued > 256 * KIB)
            stopped_at, _ = await wait_until_settled(lambda: (relay.totals.request_bytes, tap.queued))
            with await Peer.connect(relay.addresses[0]) as late:  # waits in the accept queue, like every new client
                totals = await wait_until_settled(lambda: relay.totals)
                assert totals.connections == 1
                assert totals.request_bytes == stopped_at < len(content)
                assert tap.queued < 1024 * KIB
                reading = inspector.read_to_the_end()
                assert await exchange == content
                late.finish()
                with await broker.accept() as second:
                    assert await second.rest() == b""
        messages = await reading
    counts = check(messages, {(1, Direction.REQUEST): content, (1, Direction.RESPONSE): frame(100)})
    assert counts["dropped_bytes"] == 0


async def test_strict_tap_also_pauses_connections_being_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_second_late(*args: Any) -> socket.socket:
        if relay.totals.connections == 2:
            await may_connect.wait()
        return await connect(*args)

    may_connect = asyncio.Event()
    monkeypatch.setattr("kproxy.proxy.client_opening.connect", connect_second_late)
    with Broker() as broker, tap_and_inspector(limit=256 * KIB, strict=True) as (tap, inspector):
        async with relaying(broker.address, tap=tap) as relay, connected(relay, broker) as (client, server):
            with await Peer.connect(relay.addresses[0]) as late:
                await late.send(frame(5))
                exchange = asyncio.ensure_future(_exchange(client, server, frame(8 * MIB)))
                await until(lambda: tap.queued > 256 * KIB)
                read_before, _ = await wait_until_settled(lambda: (relay.totals.request_bytes, tap.queued))
                may_connect.set()
                with await broker.accept() as late_server:
                    assert await wait_until_settled(lambda: relay.totals.request_bytes) == read_before
                    reading = inspector.read_to_the_end()
                    assert await late_server.receive(9) == frame(5)
                await exchange
        await reading


@pytest.mark.parametrize("strict", [False, True])
async def test_dead_inspector_is_reported_once_and_the_relay_continues(strict: bool) -> None:
    events: list[Event] = []
    with Broker() as broker, tap_and_inspector(limit=MIB, strict=strict) as (tap, inspector):
        async with relaying(broker.address, tap=tap, events=events) as relay:
            async with connected(relay, broker) as (client, server):
                exchange = asyncio.ensure_future(_exchange(client, server, frame(8 * MIB)))
                await until(lambda: relay.totals.request_bytes > MIB)
                inspector.socket.close()
                assert await exchange == frame(8 * MIB)
            async with connected(relay, broker) as (client, server):
                assert await _exchange(client, server, frame(8)) == frame(8)
    assert [type(event) for event in events] == [InspectorLost]
    assert "traffic is still relayed" in str(events[0])
    assert tap.unseen_bytes > 0


async def test_stuck_inspector_is_reported_at_shutdown() -> None:
    events: list[Event] = []
    with Broker() as broker, tap_and_inspector() as (tap, _):
        async with (
            relaying(broker.address, tap=tap, events=events, inspector_patience=0.05) as relay,
            connected(relay, broker) as (client, server),
        ):
            await _exchange(client, server, frame(4 * MIB))
    assert events == [InspectorLost("it has not read for 0.05 s")]


async def test_end_of_a_direction_is_reported_once() -> None:
    with Broker() as broker, tap_and_inspector(limit=256 * KIB, strict=True) as (tap, inspector):
        async with relaying(broker.address, tap=tap) as relay, connected(relay, broker) as (client, server):
            client.finish()
            assert await server.rest() == b""
            sending = asyncio.ensure_future(server.send(frame(16 * MIB)))
            receiving = asyncio.ensure_future(client.rest())
            await until(lambda: tap.queued > 256 * KIB)
            reading = inspector.read_to_the_end()
            await sending
            server.finish()
            assert await receiving == frame(16 * MIB)
        messages = await reading
    ends = [message.direction for message in messages if isinstance(message, tap_messages.End)]
    assert ends == [Direction.REQUEST, Direction.RESPONSE]
