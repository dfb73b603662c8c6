"""A queue of buffers for a socket. Adding a buffer never waits."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

#: Bytes of memory that a queued buffer takes in addition to its content.
BUFFER_COST: Final = 64
_SEND_DELAY_S = 0.01  # small buffers wait this long for others: each wake-up of the inspector costs more than a copy
_SEND_THRESHOLD = 64 * 1024  # bytes; from this many on, they are sent without waiting
_MAX_GATHERED_BUFFERS = 64  # buffers per system call
_SENT_AT_ONCE = 256 * 1024  # bytes; after these, the event loop gets its turn
_RECEIVED_AT_ONCE = 64 * 1024
_SOCKET_BUFFER = 1024 * 1024


class Outbox(Protocol):
    """Takes buffers in order. `queued` is the memory of those not yet passed on, in bytes."""

    queued: int

    def put(self, buffer: bytes) -> None:
        """Queue a buffer."""

    async def close(self, timeout_s: float) -> bool:
        """Take no more buffers; return False if none was passed on for `timeout_s` seconds."""

    def abandon(self) -> None:
        """Drop the queued buffers, and take no more; may be called again."""


class SendQueue:
    """Sends buffers in order from the event loop, when the socket has room.

    Args:
        sock: A connected socket; it is closed by `close`, or when the other end has closed.
        on_sent: Called when `queued` has become smaller.
        on_lost: Called once with the error when the other end has closed; the queue is then empty.
        on_received: Takes the bytes that the other end sends; without it, nothing is read.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_sent: Callable[[], None],
        on_lost: Callable[[OSError], None],
        on_received: Callable[[bytes], None] | None = None,
    ) -> None:
        self.queued = 0
        self._socket = sock
        self._on_sent = on_sent
        self._on_lost = on_lost
        self._buffers: deque[bytes | memoryview] = deque()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_send_scheduled = False  # `_send` runs without the timer
        self._watching = False
        self._empty = asyncio.Event()
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        self._on_received = on_received
        if on_received is not None:
            self._loop.add_reader(sock, self._receive, on_received)

    def put(self, buffer: bytes) -> None:
        """Queue a buffer."""
        self._buffers.append(buffer)
        self.queued += len(buffer) + BUFFER_COST
        if self._is_send_scheduled:
            return
        if self.queued >= _SEND_THRESHOLD:
            self._is_send_scheduled = True
            self._loop.call_soon(self._send)
        elif self._timer is None:
            self._timer = self._loop.call_later(_SEND_DELAY_S, self._send)

    async def close(self, timeout_s: float) -> bool:
        """Send the queue, then close the socket; return False if nothing was sent for `timeout_s` seconds."""
        try:
            while self._buffers:
                queued_before = self.queued
                self._empty.clear()
                try:
                    async with asyncio.timeout(timeout_s):
                        await self._empty.wait()
                except TimeoutError:
                    if self.queued >= queued_before:
                        return False
            return True
        finally:
            self._discard()

    def _receive(self, on_received: Callable[[bytes], None]) -> None:
        try:
            data = self._socket.recv(_RECEIVED_AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._discard()
            self._on_lost(error)
            return
        if data:
            on_received(data)
        else:
            self._discard()
            self._on_lost(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))

    def abandon(self) -> None:
        """Send nothing more, and close the socket; may be called again."""
        self._discard()

    def _send(self) -> None:
        self._stop_timer()
        budget = _SENT_AT_ONCE
        try:
            while self._buffers and budget > 0:
                sent_size = self._socket.sendmsg(islice(self._buffers, _MAX_GATHERED_BUFFERS))
                self._remove_sent(sent_size)
                budget -= sent_size
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._discard()
            self._on_lost(error)
            return
        self._is_send_scheduled = bool(self._buffers)
        if self._is_send_scheduled and not self._watching:
            self._watching = True
            self._loop.add_writer(self._socket, self._send)
        elif not self._is_send_scheduled:
            self._unwatch()
            self._empty.set()
        self._on_sent()

    def _remove_sent(self, sent_bytes: int) -> None:
        buffers = self._buffers
        while sent_bytes:
            size = len(buffers[0])
            if size > sent_bytes:
                buffers[0] = memoryview(buffers[0])[sent_bytes:]
                self.queued -= sent_bytes
                return
            buffers.popleft()
            self.queued -= size + BUFFER_COST
            sent_bytes -= size

    def _unwatch(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.remove_writer(self._socket)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _discard(self) -> None:
        self._stop_timer()
        self._unwatch()
        if self._on_received is not None and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
        self._buffers.clear()
        self.queued = 0
        self._is_send_scheduled = True  # nothing more is sent
        self._empty.set()
        self._socket.close()
