"""The viewer's side of the control socket, for asyncio."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from kproxy.control.protocol import LINE_START, ControlError, Greeting, parse_greeting
from kproxy.proxy.sockets import reason
from kproxy.trace.encoding import encode_json

_PATIENCE_S: Final = 10.0
#: Bytes of lines that wait here; beyond them the proxy waits, and drops what it has no room for.
_HELD_BYTES: Final = 16 << 20
#: No line is longer: that would be a frame of 32 MiB in base64, and more than is decoded.
_LINE_BYTES: Final = 64 << 20


@asynccontextmanager
async def connect(path: Path) -> AsyncIterator[ControlClient]:
    """A connection to the proxy that has its socket at `path`, until the `async with` block ends.

    Raises:
        ControlError: Nobody answers there, or no kproxy that speaks this protocol.
    """
    client = ControlClient()
    try:
        await client.open(path)
        yield client
    finally:
        await client.close()


class ControlClient(asyncio.Protocol):
    """Asks a proxy, and iterates over the lines that it sends: bytes with their newline, not parsed.

    The iteration ends when the connection does, with a `ControlError` if the proxy said why.
    """

    greeting: Greeting

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._greeted = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._rest = bytearray()
        self._lines: deque[bytes] = deque()
        self._held = 0
        self._news = asyncio.Event()
        self._lost = asyncio.Event()
        self._why: str | None = None  # the connection ends

    async def open(self, path: Path) -> None:
        """Connect and wait for the greeting; raises as `connect`."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._loop.create_unix_connection(lambda: self, str(path))
                self.greeting = await self._greeted
        except (FileNotFoundError, ConnectionRefusedError):
            raise ControlError(f"{path}: no running kproxy has its control socket there") from None
        except TimeoutError:
            raise ControlError(f"{path}: the proxy does not respond") from None
        except OSError as error:
            raise ControlError(f"{path}: {reason(error)}") from None
        except ControlError as error:
            raise ControlError(f"{path}: {error}") from None

    async def close(self) -> None:
        """Leave."""
        if self._transport is not None:
            self._transport.abort()
            await self._lost.wait()

    async def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Have the proxy do something; its reply.

        Raises:
            ControlError: The proxy refuses, does not answer, or has ended.
        """
        if self._transport is None or self._lost.is_set():
            raise self._over()
        number = next(self._numbers)
        self._asked[number] = future = self._loop.create_future()
        self._transport.write(encode_json({"id": number, "do": do, **fields}) + b"\n")
        self._transport.resume_reading()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                reply: dict[str, Any] = await future
        except TimeoutError:
            raise ControlError(f"the proxy did not answer within {_PATIENCE_S:g} s") from None
        finally:
            self._asked.pop(number, None)
        if "error" in reply:
            raise ControlError(str(reply["error"]))
        return reply

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._lines:
            if self._lost.is_set():
                if self._why is not None:
                    raise self._over()
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        line = self._lines.popleft()
        self._held -= len(line)
        if self._held <= _HELD_BYTES // 2 and self._transport is not None:
            self._transport.resume_reading()
        return line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            lines = b"".join((self._rest, whole, newline)).splitlines(keepends=True)
            self._rest = bytearray(rest)
            for line in lines:
                if line.startswith(LINE_START):
                    self._lines.append(line)
                    self._held += len(line)
                else:
                    self._hear(line)
            self._news.set()
        else:
            self._rest += rest
        if len(self._rest) > _LINE_BYTES:
            self._fail(f"the proxy sent a line longer than {_LINE_BYTES} bytes")
        elif self._held > _HELD_BYTES and not self._asked:
            self._transport.pause_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        self._lost.set()
        self._news.set()
        for future in (self._greeted, *self._asked.values()):
            if not future.done():
                future.set_exception(self._over())

    def _hear(self, line: bytes) -> None:
        """Take a line that is none of the trace."""
        try:
            if not self._greeted.done():
                self._greeted.set_result(parse_greeting(line))
                return
            reply = msgspec.json.decode(line, type=dict[str, Any])
        except (ControlError, msgspec.DecodeError, ValueError) as error:
            self._fail(str(error))
            return
        future = self._asked.get(number) if isinstance(number := reply.get("id"), int) else None
        if future is not None and not future.done():
            future.set_result(reply)
        elif "id" not in reply and "error" in reply:
            self._why = str(reply["error"])

    def _fail(self, why: str) -> None:
        assert self._transport is not None
        self._why = why
        self._transport.abort()

    def _over(self) -> ControlError:
        return ControlError(self._why or "the proxy has ended")
