"""The tap: shows the inspector's process what is relayed, in bounded memory; what is too much it drops and counts.

Whole Kafka frames are dropped, and of each the head goes along while there is room for that, so that the inspector
stays in step and can still pair requests with responses.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Final

from kproxy.proxy import tap_protocol
from kproxy.proxy.inspector_figures import FiguresReader
from kproxy.proxy.send_queue import SendQueue
from kproxy.proxy.tapped_connection import TappedConnection, TappedStream

DEFAULT_LIMIT: Final = 64 * 1024 * 1024  # bytes


class Tap:
    """One for all connections of a relay. Nothing here waits, and nothing raises for what an inspector does.

    Over `limit` no frame begins to be sent until the queue is half empty again; over `limit` and an eighth, frames that
    had begun are cut, and nothing is kept of others but their count. With `strict` nothing is dropped: `on_pressure`
    asks the relay to stop reading.

    Args:
        sock: This process's end of a stream socket to the inspector; the tap closes it.
        node: What this proxy is called in traces.
        limit: Bytes that may be queued.
        figures: Takes what the inspector sends back.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        node: str,
        limit: int = DEFAULT_LIMIT,
        strict: bool = False,
        figures: FiguresReader | None = None,
    ) -> None:
        self.full = False  # no frame begins to be sent
        self.lost = False  # the inspector is gone
        self.strict = strict
        self.dropped_bytes = 0
        self.dropped_frames = 0
        self.unseen_bytes = 0  # relayed after the inspector was gone
        self.behind: set[TappedStream] = set()  # those with a gap still to be told
        self._node = node
        self._limit = limit
        self._begun = False
        self._pressed = False
        self._missed_connections = 0
        self._missed_bytes = 0
        self._figures = figures
        self._outbox = self._outbox_to(sock)
        self._on_pressure: Callable[[bool], None] = lambda pressed: None
        self._report_lost: Callable[[OSError], None] = lambda error: None

    @property
    def queued(self) -> int:
        """Bytes of memory that wait for the inspector."""
        return self._outbox.queued

    @property
    def packed(self) -> bool:
        """There is no room for anything but the end of what has begun."""
        return not self.strict and self._outbox.queued > self._limit + self._limit // 8

    def begin(
        self,
        listeners: list[tuple[str, str]],
        on_pressure: Callable[[bool], None],
        on_lost: Callable[[OSError], None],
    ) -> None:
        """Say hello.

        Args:
            listeners: ``(listener, upstream)`` as they are called in traces.
            on_pressure: Called with True to stop all reading, with False to go on; only if `strict`.
            on_lost: Called once when the inspector is gone.
        """
        self._begun = True
        self._on_pressure, self._report_lost = on_pressure, on_lost
        self.put(tap_protocol.encode_hello(time.time_ns(), self._node, os.getpid(), listeners))

    def open(
        self, connection_id: int, at: int, client: str, server: str, listener: str, *, tls: bool = False
    ) -> TappedConnection:
        """A connection was accepted at `at` (ns since the epoch)."""
        opening = tap_protocol.encode_open(connection_id, at, client, server, listener, tls=tls)
        return TappedConnection(self, connection_id, opening)

    async def close(self, connections: int, request_bytes: int, response_bytes: int, patience: float) -> bool:
        """Say goodbye and wait until all is sent; False if the inspector took nothing for `patience` seconds."""
        if self._begun:
            self._tell_missed()
            now = time.time_ns()
            bye = tap_protocol.Bye(
                now, connections, request_bytes, response_bytes, self.dropped_bytes, self.dropped_frames
            )
            self.put(tap_protocol.encode_bye(bye))
        return await self._outbox.close(patience) and not self.lost

    def put(self, *buffers: bytes) -> None:
        """Queue the parts of a message."""
        if self.lost:
            return
        for buffer in buffers:
            self._outbox.put(buffer)
        if self._outbox.queued > self._limit and not self._pressed:
            self._pressed = True
            self.full = not self.strict
            if self.strict:
                self._on_pressure(True)

    def miss(self, streams: tuple[TappedStream, ...], size: int) -> None:
        """A connection came and went, with `size` bytes, and there was no room to tell of it."""
        self.behind.difference_update(streams)
        self._missed_connections += 1
        self._missed_bytes += size

    def _outbox_to(self, sock: socket.socket) -> SendQueue:
        if self._figures is None:
            return SendQueue(sock, self._on_sent, self._on_lost)
        self._figures.begin()
        return SendQueue(sock, self._on_sent, self._on_lost, self._figures.receive)

    def _on_sent(self) -> None:
        if self._pressed and self._outbox.queued <= self._limit // 2:
            self._release()
            now = time.time_ns()
            for stream in list(self.behind):
                stream.settle(now)
            self._tell_missed()

    def _tell_missed(self) -> None:
        if self._missed_connections:
            self.put(tap_protocol.encode_missed(time.time_ns(), self._missed_connections, self._missed_bytes))
            self._missed_connections = self._missed_bytes = 0

    def _release(self) -> None:
        self._pressed = self.full = False
        if self.strict:
            self._on_pressure(False)

    def _on_lost(self, error: OSError) -> None:
        self.lost = True
        self.behind.clear()
        self._release()
        self._report_lost(error)
