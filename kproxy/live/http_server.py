"""A small HTTP/1 server for the relay's process: GET and HEAD, one request for each connection, bounded in every way.

It shares its loop with the traffic, so a client gets little: a request head of 8 KiB, a connection of five seconds,
and one of 256 connections. When all are in use, the oldest is closed, so slow clients cannot keep others out.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
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


class HttpResponse(NamedTuple):
    """The body is for GET; a HEAD request gets its length."""

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
        sockets: Listening and non-blocking; closed by `close`.
        respond: Returns the response to a path without its query.
        on_failure: Takes the exception of `respond`; the client gets status 500.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        respond: Callable[[str], Awaitable[HttpResponse]],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._respond = respond
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._acceptors = [Acceptor(sock, self._take, self._pause) for sock in sockets]
        self._start()

    @property
    def addresses(self) -> list[str]:
        """The addresses of the listening sockets, with the real port."""
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
        """No file descriptor is left. The relay reports that."""
        for acceptor in self._acceptors:
            acceptor.stop()
        self._loop.call_later(_ACCEPT_RETRY_S, self._start)

    def _take(self, accepted: socket.socket, _client: str) -> None:
        if len(self._tasks) >= MAX_CONNECTIONS:
            next(iter(self._tasks)).cancel()
        task = self._loop.create_task(self._serve(accepted))
        self._tasks[task] = None

        def end(_task: asyncio.Task[None]) -> None:
            del self._tasks[task]
            accepted.close()  # also for a task that was cancelled before it began

        task.add_done_callback(end)

    async def _serve(self, sock: socket.socket) -> None:
        with suppress(OSError, TimeoutError):  # of the client or the network
            async with asyncio.timeout(LIFETIME_S):
                method, response = await self._answer(await self._read_head(sock))
                await self._loop.sock_sendall(sock, _encoded(method, response))
                sock.shutdown(socket.SHUT_WR)
                discarded = 0
                # Otherwise unread bytes cause a reset, which overtakes the response.
                while discarded < _DISCARDED_BYTES and (data := await self._loop.sock_recv(sock, 16384)):
                    discarded += len(data)

    async def _read_head(self, sock: socket.socket) -> bytes | None:
        """The head of the request; None if it is too long, empty if the client has left."""
        head = b""
        while not _END_OF_HEAD.search(head):
            if len(head) >= MAX_HEAD_BYTES:
                return None
            data = await self._loop.sock_recv(sock, MAX_HEAD_BYTES - len(head))
            if not data:
                raise ConnectionResetError
            head += data
        return head

    async def _answer(self, head: bytes | None) -> tuple[bytes, HttpResponse]:
        """The method, and the response to it."""
        if head is None:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            return b"GET", HttpResponse.text(status, f"the request is longer than {MAX_HEAD_BYTES} bytes")
        line = _REQUEST_LINE.match(head)
        if line is None:
            return b"GET", HttpResponse.text(HTTPStatus.BAD_REQUEST, "not an HTTP/1 request")
        if line[1] not in (b"GET", b"HEAD"):
            return b"GET", HttpResponse.text(HTTPStatus.METHOD_NOT_ALLOWED, "use GET or HEAD")
        try:
            return line[1], await self._respond(line[2].decode("ascii").partition("?")[0])
        except (OSError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001  # a bug here must not end the relay
            self._on_failure(error)
            return line[1], HttpResponse.text(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")


def _encoded(method: bytes, response: HttpResponse) -> bytes:
    allow = "Allow: GET, HEAD\r\n" if response.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
        f"Date: {time.strftime(_DATE, time.gmtime())}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else response.body)
