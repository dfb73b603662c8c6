"""Answers clients with captured responses, in the same process and behind the relay's listeners."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from dissectors.messages.message import read_request
from dissectors.wire.limits import MAX_FRAME_BYTES
from kproxy.replay.answers import CapturedAnswers, UnknownRequestError
from kproxy.replay.responses import AcceptedLogin


class ReplayServer:
    """Stands in for the brokers of a capture for the duration of an `async with` block.

    Args:
        answers: The captured responses, which all clients share.
        report: Called with one sentence when a connection is closed because a request cannot be answered.
    """

    def __init__(self, answers: CapturedAnswers, report: Callable[[str], None]) -> None:
        self._answers = answers
        self._report = report
        self._addresses: dict[int, tuple[str, int]] = {}
        self._tasks = asyncio.TaskGroup()
        self._serving_tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._serving_tasks:
            task.cancel()
        await self._tasks.__aexit__(None, None, None)

    def advertise(self, listener: int, host: str, port: int) -> None:
        """From now on, advertise this address for every broker to the clients of a listener."""
        self._addresses[listener] = host, port

    async def connect(
        self, listener: int, client_host: str, certificate: Mapping[str, Any] | None = None
    ) -> socket.socket:
        """Connect a client of a listener, see `kproxy.proxy.listener.Dial`."""
        server_sock, client_sock = socket.socketpair()
        client_sock.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=server_sock)
        task = self._tasks.create_task(self._serve(reader, writer, listener, client_host))
        self._serving_tasks.add(task)
        task.add_done_callback(self._serving_tasks.discard)
        return client_sock

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener: int, client_host: str
    ) -> None:
        """Answer the requests on a connection one after the other, like Kafka, until either side closes it."""
        login = AcceptedLogin()
        with suppress(OSError, asyncio.IncompleteReadError):
            try:
                while frame := await _read_frame(reader):
                    if (login_response := login.answer(read_request(frame))) is not None:
                        writer.write(login_response)
                        continue
                    response = self._answers.answer(frame, self._addresses[listener])
                    await asyncio.sleep(response.delay)
                    if response.frame is not None:
                        writer.write(response.frame)
                        await writer.drain()
            except UnknownRequestError as error:
                self._report(f"{client_host}: {error}; connection closed")
            finally:
                writer.close()


async def _read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Read the next frame with its length prefix; return None if its length is impossible."""
    prefix = await reader.readexactly(4)
    size = int.from_bytes(prefix, "big", signed=True)
    return prefix + await reader.readexactly(size) if 0 <= size <= MAX_FRAME_BYTES else None
