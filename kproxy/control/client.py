"""The client of the control socket, for asyncio."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from kproxy.control.protocol import (
    LINE_START,
    ControlError,
    Greeting,
    LateResponse,
    LateUpdate,
    ListenersUpdate,
    parse_greeting,
)
from kproxy.proxy.sockets import reason
from kproxy.trace.encoding import encode_json

_TIMEOUT_S: Final = 10.0
#: A proxy that answers nothing for this many seconds counts as silent.
SILENT_AFTER_S: Final = 5.0
_BEAT_S: Final = 1.0
#: The most bytes of lines to buffer. Beyond that, reading pauses, and the proxy drops lines that it has no room for.
_BUFFER_BYTES: Final = 16 << 20
#: The longest valid line: a frame of 32 MiB in base64 is shorter, and longer frames are not decoded.
_MAX_LINE_BYTES: Final = 64 << 20


@asynccontextmanager
async def connect(path: Path) -> AsyncIterator[ControlClient]:
    """Connect to the proxy whose control socket is at `path`, for the duration of an `async with` block.

    Raises:
        ControlError: No process answers there, or it does not use this protocol.
    """
    client = ControlClient()
    try:
        await client.open(path)
        yield client
    finally:
        await client.close()


class ControlClient(asyncio.Protocol):
    """Sends requests to a proxy and iterates over its trace lines, as unparsed bytes with their newline.

    The iteration ends with the connection; it raises `ControlError` if the proxy sent a reason for closing it.

    Attributes:
        greeting: The proxy's first line. Its `listeners` are kept up to date while the client watches.
        on_listeners: Called when the listeners have changed.
        on_late: Called with each late response that the proxy reports.
    """

    greeting: Greeting

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._greeted = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._incomplete_line = bytearray()
        self._lines: deque[bytes] = deque()
        self._buffered = 0
        self._changed = asyncio.Event()
        self._disconnected = asyncio.Event()
        self._close_reason: str | None = None
        self._report_silence: Callable[[bool], None] = lambda _: None
        self._is_silent = False
        self._has_pinged = False  # and nothing has arrived since
        self._received_at = self._checked_at = 0.0
        self.on_listeners: Callable[[], None] = lambda: None
        self.on_late: Callable[[LateResponse], None] = lambda _: None

    async def open(self, path: Path) -> None:
        """Connect and wait for the greeting. Raises like `connect`."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
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
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()
            await self._disconnected.wait()

    def watch_silence(self, report: Callable[[bool], None]) -> None:
        """Call `report` with True when the proxy does not answer pings, and with False when it sends data again.

        Time during which this process did not run does not count.
        """
        self._report_silence = report
        self._checked_at = self._received_at = self._loop.time()
        self._check_silence()

    def _check_silence(self) -> None:
        if self._transport is None or self._disconnected.is_set():
            return
        now = self._loop.time()
        if now - self._checked_at > 3 * _BEAT_S:  # this process was suspended
            self._received_at = now
        self._checked_at = now
        silence = now - self._received_at
        if silence >= SILENT_AFTER_S and not self._is_silent:
            self._is_silent = True
            self._report_silence(True)
        elif silence >= _BEAT_S and not self._has_pinged:
            self._has_pinged = True
            self._transport.write(encode_json({"id": next(self._numbers), "do": "ping"}) + b"\n")
            self._transport.resume_reading()
        self._loop.call_later(_BEAT_S, self._check_silence)

    async def request(self, do: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return the reply.

        Raises:
            ControlError: The proxy refuses the request, does not answer within 10 s, or has shut down.
        """
        if self._transport is None or self._disconnected.is_set():
            raise self._closed_error()
        number = next(self._numbers)
        self._pending[number] = future = self._loop.create_future()
        self._transport.write(encode_json({"id": number, "do": do, **fields}) + b"\n")
        self._transport.resume_reading()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                reply: dict[str, Any] = await future
        except TimeoutError:
            raise ControlError(f"the proxy did not answer within {_TIMEOUT_S:g} s") from None
        finally:
            self._pending.pop(number, None)
        if "error" in reply:
            raise ControlError(str(reply["error"]))
        return reply

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._lines:
            if self._disconnected.is_set():
                if self._close_reason is not None:
                    raise self._closed_error()
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        line = self._lines.popleft()
        self._buffered -= len(line)
        if self._buffered <= _BUFFER_BYTES // 2 and self._transport is not None:
            self._transport.resume_reading()
        return line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._received_at = self._loop.time()
        self._has_pinged = False
        if self._is_silent:
            self._is_silent = False
            self._report_silence(False)
        complete_lines, newline, incomplete = data.rpartition(b"\n")
        if newline:
            lines = b"".join((self._incomplete_line, complete_lines, newline)).splitlines(keepends=True)
            self._incomplete_line = bytearray(incomplete)
            for line in lines:
                if line.startswith(LINE_START):
                    self._lines.append(line)
                    self._buffered += len(line)
                else:
                    self._handle_reply(line)
            self._changed.set()
        else:
            self._incomplete_line += incomplete
        if len(self._incomplete_line) > _MAX_LINE_BYTES:
            self._fail(f"the proxy sent a line longer than {_MAX_LINE_BYTES} bytes")
        elif self._buffered > _BUFFER_BYTES and not self._pending:
            self._transport.pause_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        self._disconnected.set()
        self._changed.set()
        for future in (self._greeted, *self._pending.values()):
            if not future.done():
                future.set_exception(self._closed_error())

    def _handle_reply(self, line: bytes) -> None:
        """Handle a line that is not a trace line: the greeting, a reply, an update, or a reason for closing."""
        try:
            if not self._greeted.done():
                self._greeted.set_result(parse_greeting(line))
                return
            reply = msgspec.json.decode(line, type=dict[str, Any])
        except (ControlError, msgspec.DecodeError, ValueError) as error:
            self._fail(str(error))
            return
        future = self._pending.get(number) if isinstance(number := reply.get("id"), int) else None
        if future is not None and not future.done():
            future.set_result(reply)
        elif "id" not in reply and "error" in reply:
            self._close_reason = str(reply["error"])
        elif "id" not in reply and ("listeners" in reply or "late" in reply):
            self._handle_update(line, LateUpdate if "late" in reply else ListenersUpdate)

    def _handle_update(self, line: bytes, kind: type[LateUpdate | ListenersUpdate]) -> None:
        try:
            update = msgspec.json.decode(line, type=kind)
        except (msgspec.DecodeError, ValueError) as error:
            self._fail(str(error))
            return
        if isinstance(update, LateUpdate):
            self.on_late(update.late)
        else:
            self.greeting.listeners = update.listeners
            self.on_listeners()

    def _fail(self, close_reason: str) -> None:
        assert self._transport is not None
        self._close_reason = close_reason
        self._transport.abort()

    def _closed_error(self) -> ControlError:
        return ControlError(self._close_reason or "the proxy has ended")
