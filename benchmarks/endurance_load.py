"""The load for `endurance.py`: a broker, and clients that compare every byte.

Requests and responses are valid Kafka frames. The value in a DescribeConfigs response is the CRC of all bytes that the
broker has received on that connection, so the client also knows that its own bytes arrived unchanged.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

from dissectors.messages.message import api_layouts
from dissectors.records.encode import encode as encode_records
from dissectors.schemas.codes import ApiKey
from dissectors.wire.encode import encode

#: The number of requests on a long-lived connection, and the seconds between them.
_REQUESTS: Final = 1500
_PAUSE_S: Final = 0.03
_IN_FLIGHT: Final = 5
#: The broker resets the connection in the middle of the response to a request for this topic.
_RESET_TOPIC: Final = "reset"
_VERSIONS: Final = {ApiKey.PRODUCE: 9, ApiKey.FETCH: 12, ApiKey.DESCRIBE_CONFIGS: 4}


def _request(key: ApiKey, body: Mapping[str, object]) -> bytes:
    version = _VERSIONS[key]
    layouts = api_layouts(key, version)
    assert layouts is not None
    header = {"request_api_key": key, "request_api_version": version, "correlation_id": 0, "client_id": "endurance"}
    content = encode(layouts.request_header, header) + encode(layouts.request, body)
    return struct.pack(">i", len(content)) + content


def _response(key: ApiKey, body: Mapping[str, object]) -> bytes:
    layouts = api_layouts(key, _VERSIONS[key])
    assert layouts is not None
    content = encode(layouts.response_header, {"correlation_id": 0}) + encode(layouts.response, body)
    return struct.pack(">i", len(content)) + content


def _describe_request(topic: str) -> bytes:
    return _request(ApiKey.DESCRIBE_CONFIGS, {"resources": [{"resource_type": 2, "resource_name": topic}]})


def _describe_response(crc: int) -> bytes:
    config = {"name": "crc", "value": f"{crc:08x}", "config_type": 2}
    result = {"resource_type": 2, "resource_name": "orders", "configs": [config]}
    return _response(ApiKey.DESCRIBE_CONFIGS, {"results": [result]})


def _records(size: int) -> bytes:
    value = random.Random(1).randbytes(size)
    return encode_records([{"records": [{"value": value, "offset": 0, "timestamp": 1_700_000_000_000}]}])


DESCRIBE: Final = _describe_request("orders")
DESCRIBE_AND_RESET: Final = _describe_request(_RESET_TOPIC)
PRODUCE: Final = _request(
    ApiKey.PRODUCE,
    {"acks": -1, "timeout_ms": 30_000, "topic_data": [
        {"name": "orders", "partition_data": [{"index": 0, "records": _records(100_000)}]}]},
)  # fmt: skip
PRODUCED: Final = _response(
    ApiKey.PRODUCE,
    {"responses": [{"name": "orders", "partition_responses": [
        {"index": 0, "base_offset": 0, "log_append_time_ms": -1}]}]},
)  # fmt: skip
FETCH: Final = _request(
    ApiKey.FETCH,
    {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 50 << 20, "session_epoch": -1, "topics": [
        {"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10 << 20}]}]},
)  # fmt: skip
FETCHED: Final = _response(
    ApiKey.FETCH,
    {"responses": [{"topic": "orders", "partitions": [
        {"partition_index": 0, "high_watermark": 1, "last_stable_offset": 1, "log_start_offset": 0,
         "records": _records(1_000_000)}]}]},
)  # fmt: skip


def _numbered_request(frame: bytes, number: int) -> bytes:
    return frame[:8] + struct.pack(">i", number) + frame[12:]


def _numbered_response(frame: bytes, number: int) -> bytes:
    return frame[:4] + struct.pack(">i", number) + frame[8:]


def reset(sock: socket.socket) -> None:
    """Make the next close of this socket a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def broker(ready: Connection) -> None:
    """Serve a free port until the process is terminated."""
    asyncio.run(_broker(ready))


async def _broker(ready: Connection) -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=1 << 20)
    ready.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    crc = 0
    with suppress(OSError):
        while True:
            try:
                head = await reader.readexactly(4)
                frame = head + await reader.readexactly(int.from_bytes(head, "big"))
            except asyncio.IncompleteReadError:
                break
            crc = zlib.crc32(frame, crc)
            key, _, number = struct.unpack_from(">hhi", frame, 4)
            response = {ApiKey.PRODUCE: PRODUCED, ApiKey.FETCH: FETCHED}.get(key) or _describe_response(crc)
            response = _numbered_response(response, number)
            if frame == _numbered_request(DESCRIBE_AND_RESET, number):
                writer.write(response[: len(response) // 2])
                await writer.drain()
                reset(writer.get_extra_info("socket"))
                break
            writer.write(response)
            await writer.drain()
        writer.close()
        await writer.wait_closed()


class ClientConnection:
    """A client's connection.

    Attributes:
        address: The client's address, as in the trace.
        requests: The number of requests sent.
    """

    def __init__(self, sock: socket.socket) -> None:
        host, port = sock.getsockname()
        self.address = f"{host}:{port}"
        self.requests = 0
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._crc = 0

    async def send(self, frame: bytes) -> None:
        """Send a request; `receive` then reads the responses in the order of the requests."""
        self.requests += 1
        frame = _numbered_request(frame, self.requests)
        self._crc = zlib.crc32(frame, self._crc)
        await self._loop.sock_sendall(self._socket, frame)

    async def receive(self, expected: bytes, number: int, *, at_once: int = 1 << 18, pause: float = 0.0) -> None:
        """Read the response to request `number`.

        Raises:
            AssertionError: A byte differs from `expected`.
        """
        expected = _numbered_response(expected, number)
        received = bytearray()
        while len(received) < len(expected):
            chunk = await self._loop.sock_recv(self._socket, min(at_once, len(expected) - len(received)))
            assert chunk, f"the response to request {number} ends after {len(received)} of {len(expected)} bytes"
            received += chunk
            if pause:
                await asyncio.sleep(pause)
        assert received == expected, f"the response to request {number} differs"

    async def check_sent(self) -> None:
        """Request the CRC of all bytes that were sent, and compare it."""
        await self.send(DESCRIBE)
        await self.receive(_describe_response(self._crc), self.requests)

    async def finish(self) -> None:
        """Half-close the connection; wait until the broker closes its direction."""
        self._socket.shutdown(socket.SHUT_WR)
        extra = await self._loop.sock_recv(self._socket, 1)
        assert not extra, "there is a byte behind the last response"

    async def break_off(self) -> None:
        """Send the first half of a request, then reset the connection."""
        await self._loop.sock_sendall(self._socket, PRODUCE[: len(PRODUCE) // 2])
        reset(self._socket)

    async def expect_reset(self) -> None:
        """Make the broker reset the connection in the middle of a response."""
        await self.send(DESCRIBE_AND_RESET)
        expected = _numbered_response(_describe_response(self._crc), self.requests)
        received = b""
        try:
            while chunk := await self._loop.sock_recv(self._socket, 1 << 16):
                received += chunk
        except ConnectionResetError:
            assert expected.startswith(received), "what arrived before the reset differs"
        else:
            raise AssertionError("a reset arrived as the end of the stream")


class Load:
    """Clients of different kinds: steady, pipelining, brief, slow to read, resetting, and being reset.

    Attributes:
        exchanges: The number of requests with a correct response so far.
        clean: The numbers of requests on connections that ended with both FINs, by client address.
        broken: The number of connections that ended with a reset.
        errors: The errors so far.
    """

    def __init__(self, port: int) -> None:
        self.exchanges = 0
        self.clean: dict[str, int] = {}
        self.broken = 0
        self.errors: list[str] = []
        self._port = port
        self._stopping = False
        self._numbers = itertools.count(1 << 16)

    async def run(self) -> None:
        """Connect until `stop` is called; each client then ends its connection."""
        kinds: list[Callable[[ClientConnection], Awaitable[bool]]] = [
            self._run_steady, self._run_steady, self._run_pipelined, self._run_brief, self._read_slowly,
            self._reset_in_request, self._be_reset_in_response
        ]  # fmt: skip
        async with asyncio.TaskGroup() as clients:
            for kind in kinds:
                clients.create_task(self._repeat(kind))

    def stop(self) -> None:
        """Make all clients end soon."""
        self._stopping = True

    async def _repeat(self, client_kind: Callable[[ClientConnection], Awaitable[bool]]) -> None:
        while not self._stopping:
            try:
                async with asyncio.timeout(120):
                    await self._run_once(client_kind)
            except (AssertionError, OSError) as error:
                self.errors.append(f"{client_kind.__name__}: {type(error).__name__} {error}")
                await asyncio.sleep(0.2)

    async def _run_once(self, client_kind: Callable[[ClientConnection], Awaitable[bool]]) -> None:
        with socket.socket() as sock:
            sock.setblocking(False)
            if client_kind == self._read_slowly:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            # Half an hour would use up all ports of an address, so each connection has an address of its own.
            number = next(self._numbers)
            sock.bind((f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", 0))
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = ClientConnection(sock)
            if await client_kind(client):
                self.clean[client.address] = client.requests
            else:
                self.broken += 1

    async def _run_steady(self, client: ClientConnection) -> bool:
        for number in range(_REQUESTS):
            if self._stopping:
                break
            if number % 20 == 19:
                await client.send(FETCH)
                await client.receive(FETCHED, client.requests)
            elif number % 5 == 4:
                await client.send(PRODUCE)
                await client.receive(PRODUCED, client.requests)
            else:
                await client.check_sent()
            self.exchanges += 1
            await asyncio.sleep(_PAUSE_S)
        await client.finish()
        return True

    async def _run_pipelined(self, client: ClientConnection) -> bool:
        for _ in range(_REQUESTS // 50):
            if self._stopping:
                break
            first = client.requests + 1
            for _ in range(_IN_FLIGHT):
                await client.send(PRODUCE)
            for number in range(first, first + _IN_FLIGHT):
                await client.receive(PRODUCED, number)
                self.exchanges += 1
            await asyncio.sleep(_PAUSE_S * 10)
        await client.check_sent()
        await client.finish()
        return True

    async def _run_brief(self, client: ClientConnection) -> bool:
        await client.check_sent()
        await client.finish()
        self.exchanges += 1
        await asyncio.sleep(_PAUSE_S * 5)
        return True

    async def _read_slowly(self, client: ClientConnection) -> bool:
        for _ in range(3):
            if self._stopping:
                break
            await client.send(FETCH)
            await client.receive(FETCHED, client.requests, at_once=32 * 1024, pause=0.05)
            self.exchanges += 1
        await client.finish()
        return True

    async def _reset_in_request(self, client: ClientConnection) -> bool:
        await client.check_sent()
        await client.break_off()
        self.exchanges += 1
        await asyncio.sleep(_PAUSE_S * 10)
        return False

    async def _be_reset_in_response(self, client: ClientConnection) -> bool:
        await client.check_sent()
        await client.expect_reset()
        self.exchanges += 1
        await asyncio.sleep(_PAUSE_S * 10)
        return False
