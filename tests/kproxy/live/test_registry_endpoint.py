"""The HTTP endpoint of the schema registry, with ordinary and hostile clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kproxy.broker import Broker
from kproxy.live.registry_endpoint import serve_registry
from kproxy.proxy.address import TcpAddress
from tests.kproxy.proxy.peers import Peer

CONTENT_TYPE = b"Content-Type: application/vnd.schemaregistry.v1+json\r\n"


@asynccontextmanager
async def run_registry() -> AsyncIterator[str]:
    async with (
        asyncio.timeout(20),
        Broker(ports=None) as broker,
        serve_registry(TcpAddress("127.0.0.1", 0), broker) as addresses,
    ):
        yield addresses[0]


async def send_http(address: str, request: bytes) -> tuple[bytes, bytes, bytes]:
    """Send a request and return the status, content type and body."""
    with await Peer.connect(address) as peer:
        await peer.send(request)
        header, _, body = (await peer.rest()).partition(b"\r\n\r\n")
        [content_type] = [line for line in header.split(b"\r\n") if line.startswith(b"Content-Type: ")]
        return header.split(b" ")[1], content_type.removeprefix(b"Content-Type: "), body


def post(path: str, body: bytes, headers: bytes = CONTENT_TYPE) -> bytes:
    length = b"" if b"Length" in headers else b"Content-Length: %d\r\n" % len(body)
    return b"POST %s HTTP/1.1\r\nHost: x\r\n%s%s\r\n%s" % (path.encode(), headers, length, body)


async def test_registers_and_returns_a_schema_over_http() -> None:
    async with run_registry() as address:
        request = post("/subjects/%C3%A4-value/versions?normalize=False", json.dumps({"schema": '"int"'}).encode())
        status, content_type, body = await send_http(address, request)
        assert (status, content_type) == (b"200", b"application/vnd.schemaregistry.v1+json")
        assert json.loads(body)["id"] == 1
        for path, expected in (("/subjects", ["ä-value"]), ("/subjects/", ["ä-value"])):
            assert json.loads((await send_http(address, f"GET {path} HTTP/1.1\r\n\r\n".encode()))[2]) == expected
        assert (await send_http(address, b"GET /schemas/ids/1/schema HTTP/1.1\r\n\r\n"))[2] == b'"int"'
        # A client may wait before it sends the body.
        with await Peer.connect(address) as peer:
            body = b'{"schema": "\\"long\\""}'
            header, _ = post("/subjects/s/versions", body, CONTENT_TYPE + b"Expect: 100-continue\r\n").split(
                b"\r\n\r\n"
            )
            await peer.send(header + b"\r\n\r\n")
            assert await peer.receive(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
            await peer.send(body)
            assert (await peer.rest()).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (post("/subjects/s/versions", b"{"), b"400"),
        (post("/subjects/s/versions", b"[" * 100_000), b"400"),
        (post("/subjects/s/versions", b"\xff"), b"400"),
        (post("/subjects/s/versions", b"{}", b"Content-Type: text/plain\r\n"), b"415"),
        (post("/subjects/s/versions", b"{}", CONTENT_TYPE + b"Content-Length: 99999999\r\n"), b"413"),
        (post("/subjects/s/versions", b"{}", CONTENT_TYPE + b"Content-Length: " + b"9" * 5000 + b"\r\n"), b"413"),
        (post("/subjects/s/versions", b"{}", CONTENT_TYPE + b"Content-Length: -1\r\n"), b"400"),
        (
            post("/subjects/s/versions", b"2\r\n{}\r\n0\r\n\r\n", CONTENT_TYPE + b"Transfer-Encoding: chunked\r\n"),
            b"411",
        ),
        (b"PATCH /subjects HTTP/1.1\r\n\r\n", b"405"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
        (b"GET /%00%ff HTTP/1.1\r\n\r\n", b"404"),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 9000, b"431"),
    ],
)
async def test_rejects_hostile_requests(request_: bytes, status: bytes) -> None:
    async with run_registry() as address:
        assert (await send_http(address, request_))[0] == status
        types_response: Any = await send_http(address, b"GET /schemas/types HTTP/1.1\r\n\r\n")
        assert types_response[0] == b"200"
