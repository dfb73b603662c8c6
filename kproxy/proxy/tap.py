"""The tap: shows the inspector's process what is relayed, in bounded memory; what is too much it drops and counts.

Whole Kafka frames are dropped, and of each the head goes along while there is room for that, so that the inspector
stays in step and can still pair requests with responses.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from kproxy.proxy import tap_protocol
from kproxy.proxy.events import InspectionBehind, InspectorResumed, Report
from kproxy.proxy.inspected import InspectedTable
from kproxy.proxy.inspector_figures import FiguresReader
from kproxy.proxy.missed import MissedConnections
from kproxy.proxy.sampling import is_chosen
from kproxy.proxy.send_queue import SendQueue
from kproxy.proxy.tapped_connection import TappedConnection
from kproxy.proxy.tapped_stream import TappedStream

DEFAULT_LIMIT: Final = 64 * 1024 * 1024  # bytes
#: What a connection costs that is over, while no inspector has confirmed that it knows.
CLOSED_COST: Final = 1024
_AT_ONCE: Final = 64  # connections of which a new inspector is told; then the event loop has its turn
_REPEAT_S: Final = 60.0


class Tap:
    """One for all connections of a relay. Nothing here waits, and nothing raises for what an inspector does.

    Over `limit` no frame begins to be sent until the queue is half empty again; over `limit` and an eighth, frames that
    had begun are cut, and nothing is kept of others but their count. With `strict` nothing is dropped: `on_pressure`
    asks the relay to stop reading.

    An inspector that is gone may be followed by another, if there is a table: `lose`, then `resume`. In between, the
    tap only counts. The new one is told of the connections that are open, and that ended since the table was written.

    Args:
        sock: This process's end of a stream socket to the inspector; the tap closes it.
        node: What this proxy is called in traces.
        limit: Bytes that may be queued.
        strict: Nothing is dropped.
        table: Where inspectors store how far they have come; without it, an inspector that is gone is the last.
        sample: The share of connections that is inspected.
        figures: Takes what the inspector sends back.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        node: str,
        limit: int = DEFAULT_LIMIT,
        strict: bool = False,
        table: InspectedTable | None = None,
        sample: float | None = None,
        figures: FiguresReader | None = None,
    ) -> None:
        self.full = False  # no frame begins to be sent
        self.lost = False  # there is no inspector
        self.gone = False  # and there will be none
        self.inspector = 0  # how many there were before the present one, or the last
        self._announced = 0  # the inspector that knows of all connections
        self.strict = strict
        self.left_out = 0  # connections that were not chosen to be inspected
        self.dropped_bytes = 0
        self.dropped_frames = 0
        self.unseen_bytes = 0  # relayed while there was no inspector
        self.behind: set[TappedStream] = set()  # those with a gap still to be told
        self._table = table
        self._is_last = table is None  # no other inspector will follow
        self._sample = sample
        self._open: dict[int, TappedConnection] = {}
        self._closed: deque[TappedConnection] = deque()  # the inspector has not confirmed that it knows
        self._late: deque[TappedConnection] = deque()  # those of which a new inspector is still to be told
        self._started = self._lost_at = 0  # ns since the epoch
        self._unseen = [0, 0, 0]  # bytes, frames and connections that no inspector has seen, until one has resumed
        self._listeners: list[tuple[str, str]] = []
        self._behind_told = -math.inf  # in the loop's time
        self._report: Report = lambda event: None
        self._node = node
        self._limit = limit
        self._begun = False
        self._pressed = False
        self._missed_connections = 0
        self._missed_bytes = 0
        self._figures = figures
        self._outbox = self._outbox_to(sock)
        self._missed = MissedConnections()
        self._on_pressure: Callable[[bool], None] = lambda pressed: None
        self._report_lost: Callable[[OSError], None] = lambda error: None

    @property
    def queued(self) -> int:
        """Bytes of memory that wait for the inspector."""
        return self._outbox.queued + CLOSED_COST * len(self._closed)

    @property
    def packed(self) -> bool:
        """There is no room for anything but the end of what has begun."""
        return not self.strict and self.queued > self._limit + self._limit // 8

    def begin(
        self,
        listeners: list[tuple[str, str]],
        on_pressure: Callable[[bool], None],
        on_lost: Callable[[OSError], None],
        report: Report = lambda event: None,
    ) -> None:
        """Say hello.

        Args:
            listeners: ``(listener, upstream)`` as they are called in traces.
            on_pressure: Called with True to stop all reading, with False to go on; only if `strict`.
            on_lost: Called once when the inspector is gone, and there will be no other.
            report: Takes events that the user should know about.
        """
        self._begun = True
        self._on_pressure, self._report_lost, self._report = on_pressure, on_lost, report
        self._listeners = listeners
        self._started = time.time_ns()
        self._say_hello(self._started)

    def announce_listeners(self, listeners: list[tuple[str, str]]) -> None:
        """Send the inspector the relay's listeners, as ``(listener, upstream)``, if they have changed."""
        if listeners != self._listeners:
            self._listeners = listeners
            self.put(tap_protocol.encode_listeners(tap_protocol.Listeners(time.time_ns(), listeners)))

    def choose(self, connection_id: int, client: str) -> bool:
        """Whether a connection is to be inspected; one that is not is counted, and must not be opened here."""
        if self._sample is None or is_chosen(client, connection_id, self._sample):
            return True
        self.left_out += 1
        return False

    def open(
        self, connection_id: int, at: int, client: str, server: str, listener: str, *, tls: bool = False
    ) -> TappedConnection:
        """A connection was accepted at `at` (ns since the epoch)."""
        slot = None if self._table is None or self.gone else self._table.take()
        connection = TappedConnection(self, tap_protocol.Open(connection_id, at, client, server, listener, tls, slot))
        if slot is not None:
            self._open[connection_id] = connection
        return connection

    async def close(self, connections: int, request_bytes: int, response_bytes: int, patience: float) -> bool:
        """Say goodbye and wait until all is sent; False if the inspector took nothing for `patience` seconds."""
        if self._begun:
            self._announce_all()
            self._tell_missed()
            now = time.time_ns()
            bye = tap_protocol.Bye(
                now, connections, request_bytes, response_bytes, self.dropped_bytes, self.dropped_frames, self.left_out
            )
            self.put(tap_protocol.encode_bye(bye))
        return await self._outbox.close(patience) and not self.lost

    def put(self, *buffers: bytes) -> None:
        """Queue the parts of a message."""
        if self.lost:
            return
        for buffer in buffers:
            self._outbox.put(buffer)
        if not self._pressed and self._outbox.queued + CLOSED_COST * len(self._closed) > self._limit:
            self._pressed = True
            self.full = not self.strict
            if self.strict:
                self._on_pressure(True)

    def forget(self, connection: TappedConnection) -> None:
        """A connection is over."""
        self._open.pop(connection.id, None)

    def linger(self, connection: TappedConnection) -> None:
        """A connection is over; a next inspector is told so, unless the present one confirms that it knows."""
        if connection.slot is not None and not self.gone:
            self._closed.append(connection)
            if not self.lost:
                self._let_go_confirmed()

    def miss(self, connection: TappedConnection) -> None:
        """A connection is over, and there was no room to tell of it."""
        self.behind.difference_update(connection.streams)
        self._missed.add(1, *connection.unseen, restarted=self.lost)
        if self._table is not None:
            self._table.free(connection.slot)

    def fall_behind(self) -> None:
        """A frame is dropped because the inspector is slow: the user should know, once in a minute."""
        now = asyncio.get_running_loop().time()
        if now - self._behind_told >= _REPEAT_S:
            self._behind_told = now
            self._report(InspectionBehind())

    def inspected(self, slot: int | None, direction: int) -> tuple[int, int]:
        """Bytes and frames of one direction that the last inspector has inspected."""
        return (0, 0) if self._table is None else self._table.inspected(slot, direction)

    def count_unseen(self, size: int, frames: int) -> None:
        """A new inspector begins, and so much of a connection was inspected by none."""
        if size:
            self._unseen = [self._unseen[0] + size, self._unseen[1] + frames, self._unseen[2] + 1]

    def lose(self) -> None:
        """The inspector is gone."""
        if not self.lost:
            self.lost = True
            self.gone = self._is_last
            self._lost_at = time.time_ns()
            self._outbox.abandon()
            self.behind.clear()
            self._release()

    def expect_no_other(self) -> None:
        """No other inspector will follow the present one."""
        self._is_last = True

    def give_up(self) -> None:
        """There is no inspector, and there will be none."""
        self.lose()
        self.gone = True
        self._open.clear()
        self._closed.clear()
        self._late.clear()

    def resume(self, sock: socket.socket) -> None:
        """There is a new inspector at the other end of `sock`; all connections are announced to it."""
        assert self._table is not None
        self._outbox = self._outbox_to(sock)
        self.lost = False
        self.inspector += 1
        now = time.time_ns()
        self._say_hello(now)
        missed = self._missed.take_back(self._table.missed())
        self._unseen = [missed.size, missed.frames, missed.connections]
        self._tell_missed()
        closed = dict.fromkeys((*(late for late in self._late if late.is_closed), *self._closed))
        self._closed.clear()
        self._late.clear()
        for connection in closed:
            if self._table.is_closed(connection.slot):
                self._table.free(connection.slot)
            else:
                self._late.append(connection)
        self._late.extend(self._open.values())
        self._announce_some(self.inspector)

    def _announce_all(self) -> None:
        """Tell a new inspector of all connections that are late."""
        while self._late and not self.lost:
            self._announce_some(self.inspector)

    def _announce_some(self, inspector: int) -> None:
        """Tell a new inspector of connections that are late, a few in each turn of the loop."""
        if self.lost or inspector != self.inspector or self._announced == inspector:
            return
        now = time.time_ns()
        for _ in range(min(_AT_ONCE, len(self._late))):
            self._late.popleft().catch_up(now)
        if self._late:
            asyncio.get_running_loop().call_soon(self._announce_some, inspector)
        else:
            self._announced = inspector
            self._report(InspectorResumed((now - self._lost_at) / 1e9, *self._unseen))

    def _say_hello(self, at: int) -> None:
        hello = tap_protocol.Hello(
            at, self._node, os.getpid(), self._listeners, self._started, self.inspector, self._lost_at, self._sample
        )
        self.put(tap_protocol.encode_hello(hello))

    def _let_go_confirmed(self) -> None:
        if self._table is not None:
            while self._closed and self._table.is_closed(self._closed[0].slot):
                self._table.free(self._closed.popleft().slot)

    def _outbox_to(self, sock: socket.socket) -> SendQueue:
        if self._figures is None:
            return SendQueue(sock, self._on_sent, self._on_lost)
        self._figures.begin()
        return SendQueue(sock, self._on_sent, self._on_lost, self._figures.receive)

    def _on_sent(self) -> None:
        self._let_go_confirmed()
        if self._pressed and self.queued <= self._limit // 2:
            self._release()
            now = time.time_ns()
            for stream in list(self.behind):
                stream.settle(now)
            self._tell_missed()

    def _tell_missed(self) -> None:
        for missed in self._missed.take(time.time_ns()):
            self.put(tap_protocol.encode_missed(missed))

    def _release(self) -> None:
        self._pressed = self.full = False
        if self.strict:
            self._on_pressure(False)

    def _on_lost(self, error: OSError) -> None:
        self.lose()
        if self.gone:
            self._report_lost(error)
