"""The HTTP server of --http answers well-behaved clients correctly and limits misbehaving ones."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import pytest
from blockbuster import blockbuster_ctx

from kproxy.live import http_server
from kproxy.live.http_server import HttpRequest, HttpResponse, HttpServer
from kproxy.proxy.address import TcpAddress
from kproxy.proxy.sockets import listen
from tests.kproxy.proxy.peers import Peer, until

BODY = b"figures\n" * 1000


async def respond(request: HttpRequest) -> HttpResponse:
    path = request.path
    if path == "/fails":
        raise ZeroDivisionError("oops")
    if path == "/huge":
        return HttpResponse(HTTPStatus.OK, b"x" * 20_000_000)
    return HttpResponse(HTTPStatus.OK, BODY if path == "/metrics" else path.encode())


@asynccontextmanager
async def run_server() -> AsyncIterator[tuple[HttpServer, list[Exception]]]:
    failures: list[Exception] = []
    sockets = listen(TcpAddress("127.0.0.1", 0))
    with blockbuster_ctx("kproxy"):
        server = HttpServer(sockets, respond, failures.append)
        try:
            async with asyncio.timeout(20):
                yield server, failures
        finally:
            server.close()
            await until(lambda: not server._tasks)


async def fetch(server: HttpServer, request: bytes) -> tuple[bytes, bytes]:
    """Send a request and return the status line and the body."""
    with await Peer.connect(server.addresses[0]) as peer:
        await peer.send(request)
        header, _, body = (await peer.rest()).partition(b"\r\n\r\n")
        return header.partition(b"\r\n")[0], body


async def is_served(server: HttpServer) -> bool:
    return await fetch(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") == (b"HTTP/1.1 200 OK", BODY)


async def test_python_client_reads_the_response() -> None:
    def fetch_all() -> list[tuple[int, bytes, str | None]]:
        responses = []
        for method in ("GET", "HEAD"):
            client = http.client.HTTPConnection(server.addresses[0], timeout=10)
            client.request(method, "/metrics?name=x")
            response = client.getresponse()
            date = parsedate_to_datetime(response.headers["Date"])
            assert abs((datetime.now(UTC) - date).total_seconds()) < 60
            responses.append((response.status, response.read(), response.headers["Content-Length"]))
            client.close()
        return responses

    async with run_server() as (server, _):
        responses = await asyncio.to_thread(fetch_all)
    assert responses == [(200, BODY, str(len(BODY))), (200, b"", str(len(BODY)))]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /x HTTP/1.0\n\n", 200),
        (b"GET /x?a=b HTTP/1.1\r\nA: b\r\n\r\nmore than was asked for", 200),
        (b"GET /x HTTP/1.1\r\nA:" + b" " * 8000 + b"\rb\r\n\r\n", 200),  # must not take minutes
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\nab", 405),
        (b"GET http://x/metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x00\x00\x00\x10\x00\x12\x00\x03 kafka \r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nA: " + b"b" * 20_000, 431),
        (b"GET /fails HTTP/1.1\r\n\r\n", 500),
    ],
)
async def test_requests_get_the_correct_status(request_: bytes, status: int) -> None:
    async with run_server() as (server, failures):
        status_line, _ = await fetch(server, request_)
        assert status_line.startswith(f"HTTP/1.1 {status} ".encode())
        assert len(failures) == (status == 500)
        assert await is_served(server)


async def test_serves_two_hundred_concurrent_requests() -> None:
    async with run_server() as (server, _):
        assert all(await asyncio.gather(*(is_served(server) for _ in range(200))))


async def test_slow_clients_are_closed_and_do_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "LIFETIME_S", 2.0)
    async with run_server() as (server, _):
        async with contextlib.AsyncExitStack() as stack:
            slow_peers = [stack.enter_context(await Peer.connect(server.addresses[0])) for _ in range(400)]
            for peer in slow_peers:
                with contextlib.suppress(OSError):
                    await peer.send(b"GET /met")
            assert await is_served(server)
            assert len(server._tasks) <= http_server.MAX_CONNECTIONS
            for peer in slow_peers:
                with contextlib.suppress(OSError):  # closed with a reset, or by the deadline
                    assert await peer.rest() == b""
        assert await is_served(server)


async def test_client_that_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "LIFETIME_S", 2.0)
    async with run_server() as (server, _):
        with await Peer.connect(server.addresses[0]) as peer:
            await peer.send(b"GET /huge HTTP/1.1\r\n\r\n")
            assert await is_served(server)
            await until(lambda: not server._tasks)


async def test_client_that_sends_endlessly_is_closed() -> None:
    async with run_server() as (server, _):
        with await Peer.connect(server.addresses[0]) as peer:
            with pytest.raises(ConnectionError):
                await peer.send(b"GET /x HTTP/1.1\r\n\r\n" + b"x" * 50_000_000)
            assert await is_served(server)


async def test_close_also_ends_connections_without_a_request() -> None:
    async with run_server() as (server, _):
        with await Peer.connect(server.addresses[0]) as peer:
            await until(lambda: server._tasks)
            server.close()
            with contextlib.suppress(ConnectionResetError):
                assert await peer.rest() == b""
        await until(lambda: not server._tasks)


async def test_pauses_without_file_descriptors_and_then_continues() -> None:
    async with run_server() as (server, _):
        accept: Callable[[], object] = server._acceptors[0]._accept
        server._pause(OSError(24, "Too many open files"))
        request_task = asyncio.get_running_loop().create_task(is_served(server))
        await asyncio.sleep(0.05)
        assert not server._tasks
        assert await request_task
        accept()


async def test_close_during_a_pause_is_final() -> None:
    async with run_server() as (server, _):
        server._pause(OSError(24, "Too many open files"))
        server.close()
        server._start()
        with pytest.raises(OSError, match="refused"):
            await asyncio.get_running_loop().run_in_executor(
                None, socket.create_connection, ("127.0.0.1", int(server.addresses[0].rpartition(":")[2]))
            )
