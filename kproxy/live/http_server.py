"""A small HTTP/1 server for the relay's process: one request per connection, with limits on everything.

It shares its loop with the traffic, so clients get little: a request head of 8 KiB, five seconds per connection, and
256 connections in total. When all are in use, the oldest is closed, so slow clients cannot keep others out.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from kproxy.proxy.acceptor import Acceptor

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 256
LIFETIME_S: Final = 5.0
_ACCEPT_RETRY_S: Final = 0.5
_DISCARDED_BYTES: Final = 64 * 1024  # read after the response; more is answered with a reset
_DATE: Final = "%a, %d %b %Y %H:%M:%S GMT"
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE: Final = re.compile(rb"([A-Z]+) (/[!-~]*) HTTP/1\.[01]\r?\n")


class HttpRequest(NamedTuple):
    """A request; `path` and `query` are percent-encoded, as sent; the names of `headers` are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""


class HttpResponse(NamedTuple):
    """A response. The body is for GET; a HEAD request gets only its length."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"

    @classmethod
    def text(cls, status: HTTPStatus, sentence: str) -> HttpResponse:
        return cls(status, f"{sentence}\n".encode())

    @classmethod
    def json(cls, status: HTTPStatus, value: dict[str, Any]) -> HttpResponse:
        return cls(status, json.dumps(value).encode() + b"\n", "application/json")


class HttpServer:
    """Answers requests until `close`.

    Args:
        sockets: Listening, non-blocking sockets; `close` closes them.
        respond: Returns the response to a request.
        on_failure: Called with an exception that `respond` raises; the client gets status 500.
        methods: The methods that are accepted.
        max_body_bytes: The largest size of a request's body, which needs a Content-Length.
        lifetime_s: The longest duration of a connection.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        respond: Callable[[HttpRequest], Awaitable[HttpResponse]],
        on_failure: Callable[[Exception], None],
        *,
        methods: Sequence[str] = ("GET", "HEAD"),
        max_body_bytes: int = 0,
        lifetime_s: float = LIFETIME_S,
    ) -> None:
        self._respond = respond
        self._on_failure = on_failure
        self._methods = methods
        self._max_body_bytes = max_body_bytes
        self._lifetime_s = lifetime_s
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._acceptors = [Acceptor(sock, self._accept, self._pause) for sock in sockets]
        self._start()

    @property
    def addresses(self) -> list[str]:
        """The addresses of the listening sockets, with their real ports."""
        return [acceptor.name for acceptor in self._acceptors]

    def close(self) -> None:
        """Close the listening sockets and all connections."""
        for acceptor in self._acceptors:
            acceptor.close()
        for task in self._tasks:
            task.cancel()

    def _start(self) -> None:
        for acceptor in self._acceptors:
            acceptor.start()

    def _pause(self, _error: OSError) -> None:
        """Stop accepting for a moment, because no file descriptor is left. The relay reports the shortage."""
        for acceptor in self._acceptors:
            acceptor.stop()
        self._loop.call_later(_ACCEPT_RETRY_S, self._start)

    def _accept(self, accepted: socket.socket, _client: str) -> None:
        if len(self._tasks) >= MAX_CONNECTIONS:
            next(iter(self._tasks)).cancel()
        task = self._loop.create_task(self._serve(accepted))
        self._tasks[task] = None

        def on_done(_task: asyncio.Task[None]) -> None:
            del self._tasks[task]
            accepted.close()  # even if the task was cancelled before it began

        task.add_done_callback(on_done)

    async def _serve(self, sock: socket.socket) -> None:
        with suppress(OSError, TimeoutError):  # caused by the client or the network
            async with asyncio.timeout(self._lifetime_s):
                response = await self._answer(sock)
                await self._loop.sock_sendall(sock, response)
                sock.shutdown(socket.SHUT_WR)
                discarded = 0
                # Otherwise unread bytes cause a reset, which overtakes the response.
                while discarded < _DISCARDED_BYTES and (data := await self._loop.sock_recv(sock, 16384)):
                    discarded += len(data)

    async def _answer(self, sock: socket.socket) -> bytes:
        """Read a request; return the encoded response."""
        try:
            request = await self._read_request(sock)
        except _BadRequest as bad_request:
            return self._encode("GET", HttpResponse.text(bad_request.status, bad_request.sentence))
        try:
            return self._encode(request.method, await self._respond(request))
        except (OSError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001  # a bug here must not end the relay
            self._on_failure(error)
            sentence = f"{type(error).__name__}: {error}"
            return self._encode(request.method, HttpResponse.text(HTTPStatus.INTERNAL_SERVER_ERROR, sentence))

    async def _read_request(self, sock: socket.socket) -> HttpRequest:
        data = b""
        while (end := _END_OF_HEAD.search(data)) is None:
            if len(data) >= MAX_HEAD_BYTES:
                status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                raise _BadRequest(status, f"the request is longer than {MAX_HEAD_BYTES} bytes")
            data += await self._receive(sock, MAX_HEAD_BYTES - len(data))
        head, body = data[: end.end()], data[end.end() :]
        if (line := _REQUEST_LINE.match(head)) is None:
            raise _BadRequest(HTTPStatus.BAD_REQUEST, "not an HTTP/1 request")
        method, (path, _, query) = line[1].decode(), line[2].decode().partition("?")
        if method not in self._methods:
            raise _BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, f"use {' or '.join(self._methods)}")
        rows = (row.partition(":") for row in head[line.end() :].decode("latin-1").split("\n"))
        headers = {name.lower(): value.strip() for name, colon, value in rows if colon}
        if self._max_body_bytes:
            body = await self._read_body(sock, headers, body)
        return HttpRequest(method, path, query, headers, body)

    async def _read_body(self, sock: socket.socket, headers: Mapping[str, str], body: bytes) -> bytes:
        if "transfer-encoding" in headers:
            raise _BadRequest(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length, not a Transfer-Encoding")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or not length.isascii():
            raise _BadRequest(HTTPStatus.BAD_REQUEST, "invalid Content-Length")
        if len(length) > 18 or (size := int(length)) > self._max_body_bytes:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            raise _BadRequest(status, f"the body is longer than {self._max_body_bytes} bytes")
        if len(body) < size and headers.get("expect", "").lower() == "100-continue":
            await self._loop.sock_sendall(sock, b"HTTP/1.1 100 Continue\r\n\r\n")
        received = bytearray(body)
        while len(received) < size:
            received += await self._receive(sock, min(size - len(received), 1 << 16))
        return bytes(received[:size])

    async def _receive(self, sock: socket.socket, max_bytes: int) -> bytes:
        if not (data := await self._loop.sock_recv(sock, max_bytes)):
            raise ConnectionResetError  # the client has disconnected
        return data

    def _encode(self, method: str, response: HttpResponse) -> bytes:
        allow = f"Allow: {', '.join(self._methods)}\r\n" if response.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
        head = (
            f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
            f"Date: {time.strftime(_DATE, time.gmtime())}\r\n"
            f"Content-Type: {response.content_type}\r\n"
            f"Content-Length: {len(response.body)}\r\n"
            f"{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == "HEAD" else response.body)


class _BadRequest(Exception):
    """An invalid request, which is answered with a status and a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
