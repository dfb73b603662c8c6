"""Invalid bytes sent to a broker, which must survive them unharmed."""

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
from tests.kproxy.broker.every_api import APIS, OPTIONS, ApiClient
from tests.kproxy.broker.socket_client import SocketClient, broker_client
from tests.kproxy.capture_results import DATA
from tests.kproxy.frames import request, with_length_prefix

VALID_REQUEST = request("ApiVersions", 0, {})
JUNK = [b"", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x00", b"\xff", b"\x02", b"\0"]


def corpus() -> Iterator[bytes]:
    """Yield requests that Kafka's own classes wrote, without their length prefixes."""
    for name in ("corpus-tame", "corpus-seed1"):
        with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as rows:
            for row in map(json.loads, rows):
                if row["type"] == "request" and row["api"].removesuffix("Request") in APIS:
                    yield bytes.fromhex(row["frame_hex"])[4:]


def damage(frame: bytes, rng: random.Random) -> bytes:
    """Return the frame with up to three edits. Its API and version stay, so that the broker decodes the body."""
    for _ in range(rng.randrange(4)):
        position = rng.randrange(4, len(frame) + 1)
        junk = rng.choice(JUNK)
        frame = frame[:position] + junk + frame[position + rng.choice([len(junk), len(junk), 0, 1, 4]) :]
    return frame


def is_served(frame: bytes) -> bool:
    """Return whether the broker serves that API and version; otherwise it would just close the connection."""
    key, version = struct.unpack(">hh", frame[:4])
    api = schemas.api(key)
    return api is not None and version in APIS.get(api.name, ())


@asynccontextmanager
async def attacked_broker(**options: Any) -> AsyncIterator[SocketClient]:
    """Yield a client of a broker; afterwards check that no connection or task is left and no bug was reported."""
    reports: list[str] = []
    async with broker_client(reports=reports, **(OPTIONS | options)) as client:
        old_tasks = asyncio.all_tasks()
        yield client
        [server] = client.broker._servers.values()
        if client._streams:
            await client.hang_up()
        async with asyncio.timeout(20):
            while server.connections or asyncio.all_tasks() - old_tasks:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await check_responsive(client)
    assert [line for line in reports if "bug" in line or "cannot be written" in line] == []


async def check_responsive(client: SocketClient) -> None:
    """Check that a well-behaved client gets a response."""
    other = client.second_client()
    assert (await other("ApiVersions", 0))["error_code"] == 0
    await other.hang_up()


async def attack(port: int, frames: list[bytes], rng: random.Random) -> None:
    """Send all frames at once, then disconnect in one of the ways in which clients disconnect."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = b"".join(map(with_length_prefix, frames))
    ending = rng.choice(["cut", "half-close", "reset", "wait"])
    with suppress(ConnectionError):
        writer.write(data[: -rng.randrange(1, 9)] if ending == "cut" else data)
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


async def attack_in_parallel(client: SocketClient, frames: list[bytes], rng: random.Random) -> None:
    """Send the frames from many clients, up to ten at a time."""
    rng.shuffle(frames)
    chunks = iter([frames[start : start + 5] for start in range(0, len(frames), 5)])

    async def worker() -> None:
        for chunk in chunks:
            await attack(client.broker.ports[0], chunk, rng)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(worker())


@pytest.mark.slow
async def test_survives_damaged_requests_from_kafkas_encoder() -> None:
    rng = random.Random(5)
    frames = [damage(frame, rng) for frame in corpus() if is_served(frame)]
    assert len(frames) > 2000
    async with attacked_broker() as client:
        await attack_in_parallel(client, frames, rng)


async def test_survives_damaged_requests_that_were_valid_for_this_broker() -> None:
    rng = random.Random(6)
    async with attacked_broker() as client:
        api_client = ApiClient(client, "g")
        valid = [
            request(api, version, dict(api_client.body(api, version)))[4:] for api in APIS for version in APIS[api]
        ]
        await attack_in_parallel(client, [damage(frame, rng) for frame in valid * 4], rng)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_survives_damaged_logins(mechanism: str) -> None:
    rng = random.Random(7)
    messages = [
        b"\0alice\0secret",
        b"n,,n=alice,r=nonce",
        b"n,,\1auth=Bearer e30.eyJzdWIiOiJhIn0.\1\1",
        b"c=biws,r=n,p=AA==",
    ]
    async with attacked_broker(sasl=(mechanism,), users={"alice": "secret"}) as client:
        for version in (0, 1):
            for _ in range(40):
                frames = [request("SaslHandshake", version, {"mechanism": mechanism})[4:]]
                for _ in range(3):
                    message = damage(b"1234" + rng.choice(messages), rng)[4:]
                    raw = request("SaslAuthenticate", 2, {"auth_bytes": message})[4:]
                    frames.append(raw if version else message)
                await attack(client.broker.ports[0], frames, rng)


@pytest.mark.slow
async def test_survives_a_thousand_stalled_connections() -> None:
    async with attacked_broker() as client, AsyncExitStack() as stack:
        for number in range(1000):
            _, writer = await asyncio.open_connection("127.0.0.1", client.broker.ports[0])
            stack.callback(writer.close)
            writer.write(VALID_REQUEST[: number % len(VALID_REQUEST)])
        await check_responsive(client)


async def test_length_prefix_alone_allocates_no_memory() -> None:
    async with attacked_broker() as client, AsyncExitStack() as stack:
        await check_responsive(client)
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", client.broker.ports[0])
            stack.callback(writer.close)
            writer.write(MAX_FRAME_BYTES.to_bytes(4, "big") + b"\0\3\0\1")
        await check_responsive(client)
        assert tracemalloc.get_traced_memory()[1] < MAX_FRAME_BYTES // 10


@pytest.mark.parametrize("length", [-1, MAX_FRAME_BYTES + 1, 0, 7])
async def test_invalid_length_closes_the_connection(length: int) -> None:
    async with attacked_broker() as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.broker.ports[0])
        writer.write(length.to_bytes(4, "big", signed=True) + bytes(7))
        assert await reader.read() == b""
        writer.close()


@pytest.mark.slow
async def test_client_that_reads_nothing_uses_bounded_memory() -> None:
    brokers_configs = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    large_request = request("DescribeConfigs", 4, {"resources": [brokers_configs]})
    async with attacked_broker() as client:
        await client("ApiVersions", 0)
        [server] = client.broker._servers.values()
        [own_connection] = server.connections
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", client.broker.ports[0]))
            sock.setblocking(False)
            sock.send(large_request)
            while len(server.connections) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            [connection] = server.connections - {own_connection}
            idle_rounds, unsent_data = 0, b""
            while idle_rounds < 20:  # until the queue stops growing
                queued = len(connection._frames)
                with suppress(BlockingIOError):
                    unsent_data = unsent_data or large_request * 1000
                    unsent_data = unsent_data[sock.send(unsent_data) :]
                await asyncio.sleep(0.01)
                idle_rounds = idle_rounds + 1 if len(connection._frames) == queued else 0
                assert connection.transport.get_write_buffer_size() < 1 << 20
                assert sum(map(len, connection._frames)) < 2 << 20
            assert connection._frames
            assert (await client("ApiVersions", 0))["error_code"] == 0


@pytest.mark.slow
async def test_pipelining_client_gets_responses_in_order_and_blocks_no_other_client() -> None:
    request_count = 5000
    async with attacked_broker() as client:
        await client("ApiVersions", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", client.broker.ports[0])
        writer.write(b"".join(request("ApiVersions", 0, {}, correlation_id=index) for index in range(request_count)))
        responses = [await read_frame(reader)]
        [server] = client.broker._servers.values()
        await client("ApiVersions", 0)
        assert max(len(connection._frames) for connection in server.connections) > request_count // 2
        responses += [await read_frame(reader) for _ in range(request_count - 1)]
        assert [int.from_bytes(response[:4], "big") for response in responses] == list(range(request_count))
        writer.close()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
