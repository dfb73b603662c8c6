"""Buffers on their way to a socket: whoever adds one never waits."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

#: What a queued buffer costs beside its content, so that many small ones count as the memory that they take.
BUFFER_COST: Final = 64
_PATIENCE_S = 0.001  # small buffers wait that long for others: a system call each would cost more than all the rest
_WORTH_SENDING = 64 * 1024  # bytes that wait for no others
_GATHERED = 64  # buffers in one system call
_SENT_AT_ONCE = 256 * 1024  # bytes; then the event loop has its turn
_SOCKET_BUFFER = 1024 * 1024


class SendQueue:
    """Sends what was put in from the event loop, when the socket has room; the order is kept.

    Args:
        sock: Connected; closed by `close` or when the other end is gone.
        on_sent: Called when `queued` has shrunk.
        on_lost: Called once, with what the system said, when the other end is gone; the queue is empty then.
    """

    def __init__(self, sock: socket.socket, on_sent: Callable[[], None], on_lost: Callable[[OSError], None]) -> None:
        self.queued = 0
        self._socket = sock
        self._on_sent = on_sent
        self._on_lost = on_lost
        self._buffers: deque[bytes | memoryview] = deque()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._scheduled = False  # to be sent without the timer
        self._watching = False
        self._empty = asyncio.Event()
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)

    def put(self, buffer: bytes) -> None:
        """Queue a buffer."""
        self._buffers.append(buffer)
        self.queued += len(buffer) + BUFFER_COST
        if self._scheduled:
            return
        if self.queued >= _WORTH_SENDING:
            self._scheduled = True
            self._loop.call_soon(self._send)
        elif self._timer is None:
            self._timer = self._loop.call_later(_PATIENCE_S, self._send)

    async def close(self, patience: float) -> bool:
        """Send what is queued, then close the socket; False if nothing could be sent for `patience` seconds."""
        try:
            while self._buffers:
                before = self.queued
                self._empty.clear()
                try:
                    async with asyncio.timeout(patience):
                        await self._empty.wait()
                except TimeoutError:
                    if self.queued >= before:
                        return False
            return True
        finally:
            self._drop()

    def abandon(self) -> None:
        """Send nothing more, and close the socket; may be called again."""
        self._drop()

    def _send(self) -> None:
        self._stop_timer()
        budget = _SENT_AT_ONCE
        try:
            while self._buffers and budget > 0:
                sent = self._socket.sendmsg(islice(self._buffers, _GATHERED))
                self._forget(sent)
                budget -= sent
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._drop()
            self._on_lost(error)
            return
        self._scheduled = bool(self._buffers)
        if self._scheduled and not self._watching:
            self._watching = True
            self._loop.add_writer(self._socket, self._send)
        elif not self._scheduled:
            self._unwatch()
            self._empty.set()
        self._on_sent()

    def _forget(self, sent: int) -> None:
        buffers = self._buffers
        while sent:
            size = len(buffers[0])
            if size > sent:
                buffers[0] = memoryview(buffers[0])[sent:]
                self.queued -= sent
                return
            buffers.popleft()
            self.queued -= size + BUFFER_COST
            sent -= size

    def _unwatch(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.remove_writer(self._socket)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self) -> None:
        self._stop_timer()
        self._unwatch()
        self._buffers.clear()
        self.queued = 0
        self._scheduled = True  # nothing is sent any more
        self._empty.set()
        self._socket.close()
