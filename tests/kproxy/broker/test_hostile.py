"""Bytes that nobody should send, at one broker: afterwards it is as it was."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from dissectors import schemas
from dissectors.wire.limits import MAX_FRAME_BYTES
from tests.kproxy.broker.every_api import APIS, OPTIONS, Client
from tests.kproxy.broker.socket_client import Asking, asked
from tests.kproxy.capture_results import DATA
from tests.kproxy.frames import framed, request

ASKED = request("ApiVersions", 0, {})
WEDGES = [b"", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x00", b"\xff", b"\x02", b"\0"]


def corpus() -> Iterator[bytes]:
    """Requests that Kafka's own classes wrote, without their length prefixes."""
    for name in ("corpus-tame", "corpus-seed1"):
        with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as rows:
            for row in map(json.loads, rows):
                if row["type"] == "request" and row["api"].removesuffix("Request") in APIS:
                    yield bytes.fromhex(row["frame_hex"])[4:]


def damaged(frame: bytes, chance: random.Random) -> bytes:
    """The frame with up to three edits; its API and version stay, so that the body is looked at."""
    for _ in range(chance.randrange(4)):
        at = chance.randrange(4, len(frame) + 1)
        wedge = chance.choice(WEDGES)
        frame = frame[:at] + wedge + frame[at + chance.choice([len(wedge), len(wedge), 0, 1, 4]) :]
    return frame


def is_served(frame: bytes) -> bool:
    """Whether the broker has that API and version; else it would only close the connection."""
    key, version = struct.unpack(">hh", frame[:4])
    api = schemas.api(key)
    return api is not None and version in APIS.get(api.name, ())


@asynccontextmanager
async def besieged(**options: Any) -> AsyncIterator[Asking]:
    """A broker that clients do wrong to. Nothing of them is left, and it has made no mistake of its own."""
    said: list[str] = []
    async with asked(said=said, **(OPTIONS | options)) as ask:
        before = asyncio.all_tasks()
        yield ask
        [server] = ask.broker._servers.values()
        if ask._streams:
            await ask.hang_up()
        async with asyncio.timeout(20):
            while server.connections or asyncio.all_tasks() - before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await answers(ask)
    assert [line for line in said if "bug" in line or "cannot be written" in line] == []


async def answers(ask: Asking) -> None:
    """A right client is answered."""
    other = ask.another()
    assert (await other("ApiVersions", 0))["error_code"] == 0
    await other.hang_up()


async def attack(port: int, frames: list[bytes], chance: random.Random) -> None:
    """Send frames in one go, and leave in one of the ways in which clients leave."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = b"".join(map(framed, frames))
    ending = chance.choice(["cut", "half-close", "reset", "wait"])
    with suppress(ConnectionError):
        writer.write(data[: -chance.randrange(1, 9)] if ending == "cut" else data)
        await writer.drain()
        if ending in ("half-close", "wait"):
            if ending == "half-close":
                writer.write_eof()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await reader.read()
        elif ending == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        writer.close()
        await writer.wait_closed()


async def siege(ask: Asking, frames: list[bytes], chance: random.Random) -> None:
    """Many clients, up to ten at a time."""
    chance.shuffle(frames)
    parts = iter([frames[at : at + 5] for at in range(0, len(frames), 5)])

    async def soldier() -> None:
        for part in parts:
            await attack(ask.broker.ports[0], part, chance)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(soldier())


async def test_damaged_requests_as_kafka_writes_them() -> None:
    chance = random.Random(5)
    frames = [damaged(frame, chance) for frame in corpus() if is_served(frame)]
    assert len(frames) > 2000
    async with besieged() as ask:
        await siege(ask, frames, chance)


async def test_damaged_requests_that_were_right_for_this_broker() -> None:
    chance = random.Random(6)
    async with besieged() as ask:
        client = Client(ask, "g")
        right = [request(api, each, dict(client.body(api, each)))[4:] for api in APIS for each in APIS[api]]
        await siege(ask, [damaged(frame, chance) for frame in right * 4], chance)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_damaged_logins(mechanism: str) -> None:
    chance = random.Random(7)
    messages = [
        b"\0alice\0secret",
        b"n,,n=alice,r=nonce",
        b"n,,\1auth=Bearer e30.eyJzdWIiOiJhIn0.\1\1",
        b"c=biws,r=n,p=AA==",
    ]
    async with besieged(sasl=(mechanism,), users={"alice": "secret"}) as ask:
        for version in (0, 1):
            for _ in range(40):
                frames = [request("SaslHandshake", version, {"mechanism": mechanism})[4:]]
                for _ in range(3):
                    message = damaged(b"1234" + chance.choice(messages), chance)[4:]
                    raw = request("SaslAuthenticate", 2, {"auth_bytes": message})[4:]
                    frames.append(raw if version else message)
                await attack(ask.broker.ports[0], frames, chance)


async def test_a_thousand_connections_that_open_and_stall() -> None:
    async with besieged() as ask, AsyncExitStack() as stack:
        for number in range(1000):
            _, writer = await asyncio.open_connection("127.0.0.1", ask.broker.ports[0])
            stack.callback(writer.close)
            writer.write(ASKED[: number % len(ASKED)])
        await answers(ask)


async def test_a_length_without_its_bytes_takes_no_memory() -> None:
    async with besieged() as ask, AsyncExitStack() as stack:
        await answers(ask)
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", ask.broker.ports[0])
            stack.callback(writer.close)
            writer.write(MAX_FRAME_BYTES.to_bytes(4, "big") + b"\0\3\0\1")
        await answers(ask)
        assert tracemalloc.get_traced_memory()[1] < MAX_FRAME_BYTES // 10


@pytest.mark.parametrize("length", [-1, MAX_FRAME_BYTES + 1, 0, 7])
async def test_a_length_that_cannot_be_one_ends_the_connection(length: int) -> None:
    async with besieged() as ask:
        reader, writer = await asyncio.open_connection("127.0.0.1", ask.broker.ports[0])
        writer.write(length.to_bytes(4, "big", signed=True) + bytes(7))
        assert await reader.read() == b""
        writer.close()


async def test_a_client_that_reads_nothing_fills_no_memory() -> None:
    brokers_configs = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    asking = request("DescribeConfigs", 4, {"resources": [brokers_configs]})
    async with besieged() as ask:
        await ask("ApiVersions", 0)
        [server] = ask.broker._servers.values()
        [mine] = server.connections
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", ask.broker.ports[0]))
            client.setblocking(False)
            client.send(asking)
            while len(server.connections) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            [connection] = server.connections - {mine}
            still, unsent = 0, b""
            while still < 20:  # until nothing moves any more
                before = len(connection._frames)
                with suppress(BlockingIOError):
                    unsent = unsent or asking * 1000
                    unsent = unsent[client.send(unsent) :]
                await asyncio.sleep(0.01)
                still = still + 1 if len(connection._frames) == before else 0
                assert connection.transport.get_write_buffer_size() < 1 << 20
                assert sum(map(len, connection._frames)) < 2 << 20
            assert connection._frames
            assert (await ask("ApiVersions", 0))["error_code"] == 0


async def test_a_client_that_asks_far_ahead_is_answered_in_order_and_keeps_nobody_waiting() -> None:
    ahead = 5000
    async with besieged() as ask:
        await ask("ApiVersions", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", ask.broker.ports[0])
        writer.write(b"".join(request("ApiVersions", 0, {}, correlation_id=index) for index in range(ahead)))
        answered = [await frame(reader)]
        [server] = ask.broker._servers.values()
        await ask("ApiVersions", 0)
        assert max(len(connection._frames) for connection in server.connections) > ahead // 2
        answered += [await frame(reader) for _ in range(ahead - 1)]
        assert [int.from_bytes(each[:4], "big") for each in answered] == list(range(ahead))
        writer.close()


async def frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
