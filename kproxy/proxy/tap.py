"""The tap: sends the inspector's process a copy of the traffic, in bounded memory.

If the inspector is too slow, the tap drops whole Kafka frames and counts them. While there is room, it sends the first
bytes of each dropped frame, so that the inspector can still pair requests with responses.
"""

# Rule 1: nothing here waits, blocks or raises because of an inspector. The relay has already sent the bytes.
#
# Rule 2: every relayed byte of a chosen connection is sent, counted in a gap, or counted in `unseen_bytes`: exactly
# one of these.
#
# Rule 3: dropped bytes end at the end of a frame, so the inspector continues at the start of one.
#
# Rule 4: memory is bounded by nine eighths of `limit`; beyond that, only the rest of frames in progress is queued.
#
# Rule 5: before any frame is only counted, the inspector gets `Behind`. It gets the gaps of all streams before the end
# of that state, because until then a response that it has not seen may have been counted.

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable
from typing import Final

from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.events import InspectionBehind, InspectorResumed, Report
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.proxy.inspector_figures import FiguresReader
from kproxy.proxy.known_connections import KnownConnections
from kproxy.proxy.missed_connections import MissedConnections
from kproxy.proxy.sampling import is_chosen
from kproxy.proxy.send_queue import Outbox, SendQueue
from kproxy.proxy.tapped_connection import TappedConnection
from kproxy.proxy.tapped_stream import TappedStream

DEFAULT_LIMIT: Final = 64 * 1024 * 1024  # bytes
_ANNOUNCED_AT_ONCE: Final = 64  # connections announced to a new inspector in one turn of the event loop
_REPORT_INTERVAL_S: Final = 60.0


class Tap:
    """The tap of all connections of a relay. Nothing here waits, or raises because of an inspector.

    If more than `limit` bytes are queued, no new frame is sent until the queue is half empty. Beyond nine eighths of
    `limit`, frames that were partly sent are cut, and other frames are only counted. With `strict`, nothing is
    dropped: `on_pressure` asks the relay to stop reading.

    With a table, another inspector may follow a lost one: `lose`, then `resume`. In between, the tap only counts.
    The new inspector gets the open connections, and those that ended since the table was written.

    Args:
        destination: This process's end of a stream socket to the inspector, which the tap closes; or an outbox in its
            place, for an inspector in this process.
        node: The name of this proxy in traces.
        limit: Bytes that may be queued.
        strict: Whether nothing may be dropped.
        table: Where inspectors store their progress; without it, no inspector follows a lost one.
        sample: The share of connections that is inspected.
        figures: Takes the figures that the inspector sends back.

    Attributes:
        full: Whether no new frame is sent.
        packed: Whether there is room only for the rest of frames that were partly sent, until a ninth of it is free.
        lost: Whether no inspector is connected.
        gone: Whether no inspector is connected, and none will be.
        inspector: The number of inspectors before the current one, or the last.
        unsampled_count: Connections that were not chosen to be inspected.
        unseen_bytes: Bytes relayed while no inspector was connected.
        messages: The number of messages for the current inspector.
        behind: Streams with a gap that the inspector does not know about yet.
        connections: The connections that the next inspector must know about.
    """

    def __init__(
        self,
        destination: socket.socket | Outbox,
        *,
        node: str,
        limit: int = DEFAULT_LIMIT,
        strict: bool = False,
        table: InspectedTable | None = None,
        sample: float | None = None,
        figures: FiguresReader | None = None,
    ) -> None:
        self.full = False
        self.packed = False
        self.lost = False
        self.gone = False
        self.inspector = 0
        self.strict = strict
        self.unsampled_count = 0
        self.dropped_bytes = 0
        self.dropped_frames = 0
        self.unseen_bytes = 0
        self.messages = 0
        self.behind: set[TappedStream] = set()
        self.connections = KnownConnections(table)
        self._node = node
        self._limit = limit
        self._table = table
        self._sample = sample
        self._figures = figures
        self._outbox: Outbox = (
            self._make_send_queue(destination) if isinstance(destination, socket.socket) else destination
        )
        self._missed = MissedConnections()
        self._is_last = table is None  # no inspector will follow the current one
        self._announced = 0  # the number of the last inspector to which all connections were announced
        self._started = self._lost_at = 0  # ns since the epoch
        self._unseen = [0, 0, 0]  # bytes, frames and connections that no inspector has seen, for `InspectorResumed`
        self._listeners: list[tuple[str, str]] = []
        self._begun = False
        self._over_limit = False
        self._is_closing = False
        self._behind_reported_at = -math.inf  # in the loop's time
        self._report: Report = lambda event: None
        self._on_pressure: Callable[[bool], None] = lambda active: None
        self._report_lost: Callable[[OSError], None] = lambda error: None

    @property
    def queued(self) -> int:
        """Bytes of memory that hold data for the inspector."""
        return self._outbox.queued + self.connections.cost

    @property
    def has_room(self) -> bool:
        """Whether there is room for more than the rest of frames that were partly sent."""
        return self.strict or self.queued <= self._limit + self._limit // 8

    def begin(
        self,
        listeners: list[tuple[str, str]],
        on_pressure: Callable[[bool], None],
        on_lost: Callable[[OSError], None],
        report: Report = lambda event: None,
    ) -> None:
        """Send the first message.

        Args:
            listeners: Pairs ``(listener, upstream)``, as in traces.
            on_pressure: Called with True to stop all reading, with False to resume; only if `strict`.
            on_lost: Called once when the inspector is lost and no other will follow.
            report: Called with events that the user should know about.
        """
        self._begun = True
        self._on_pressure, self._report_lost, self._report = on_pressure, on_lost, report
        self._listeners = listeners
        self._started = time.time_ns()
        self._send_hello(self._started)

    def announce_listeners(self, listeners: list[tuple[str, str]]) -> None:
        """Send the inspector the relay's listeners, as ``(listener, upstream)``, if they have changed."""
        if listeners != self._listeners:
            self._listeners = listeners
            self.put(tap_protocol.encode_listeners(tap_messages.ListenersChanged(time.time_ns(), listeners)))

    def choose(self, connection_id: int, client: str) -> bool:
        """Return whether a connection is inspected. If not, count it; `open` must not be called for it."""
        if self._sample is None or is_chosen(client, connection_id, self._sample):
            return True
        self.unsampled_count += 1
        return False

    def open(
        self,
        connection_id: int,
        at: int,
        client: str,
        server: str,
        listener: str,
        *,
        tls: bool = False,
        plaintext_upstream: bool = False,
    ) -> TappedConnection:
        """Add a connection that was accepted at `at` (ns since the epoch); see `tap_messages.Open`."""
        slot = None if self.gone else self.connections.take_slot()
        opened = tap_messages.Open(
            connection_id, at, client, server, listener, tls, slot, plaintext_upstream=plaintext_upstream
        )
        connection = TappedConnection(self, opened)
        if slot is not None:
            self.connections.add(connection)
        return connection

    async def close(self, connections: int, request_bytes: int, response_bytes: int, within: float) -> bool:
        """Send the last message, and wait until everything is sent.

        Returns:
            False if the inspector read nothing for `within` seconds.
        """
        if self._begun:
            self._is_closing = True
            self.look_for_room()
            self._announce_all()
            self._send_missed()
            now = time.time_ns()
            bye = tap_messages.Bye(
                now,
                connections,
                request_bytes,
                response_bytes,
                self.dropped_bytes,
                self.dropped_frames,
                self.unsampled_count,
            )
            self.put(tap_protocol.encode_bye(bye))
        return await self._outbox.close(within) and not self.lost

    def put(self, *buffers: bytes) -> None:
        """Queue the parts of a message."""
        if self.lost:
            return
        self.messages += 1
        outbox = self._outbox
        for buffer in buffers:
            outbox.put(buffer)
        # `self.queued`, inlined because this runs for each chunk.
        if outbox.queued + self.connections.cost > self._limit:
            self._limit_queue()

    def _limit_queue(self) -> None:
        if not self._over_limit:
            self._over_limit = True
            self.full = not self.strict
            if self.strict:
                self._on_pressure(True)
        if not (self.packed or self._is_closing or self.has_room):
            self.packed = True
            self.put(tap_protocol.encode_behind(tap_messages.Behind(time.time_ns(), True)))

    def look_for_room(self) -> None:
        """Send all gaps if the queue is no longer packed."""
        if self.packed and (self._is_closing or self.queued <= self._limit):
            self.packed = False
            self._send_gaps()
            if not self.packed:
                self.put(tap_protocol.encode_behind(tap_messages.Behind(time.time_ns(), False)))

    def keep_closed(self, connection: TappedConnection) -> None:
        """Keep a closed connection: the next inspector gets its end, unless the current one confirms having it."""
        if not self.gone:
            self.connections.keep(connection)
            if not self.lost:
                self.connections.free_confirmed()

    def count_missed(self, connection: TappedConnection) -> None:
        """Count a closed connection that was never announced, because there was no room."""
        self.behind.difference_update(connection.streams)
        self._missed.add(1, *connection.unseen, restarted=self.lost)
        self.connections.free(connection)

    def fall_behind(self) -> None:
        """Report, at most once a minute, that a frame is dropped because the inspector is slow."""
        now = asyncio.get_running_loop().time()
        if now - self._behind_reported_at >= _REPORT_INTERVAL_S:
            self._behind_reported_at = now
            self._report(InspectionBehind())

    def count_unseen(self, size: int, frames: int) -> None:
        """Count the bytes and frames of a connection that no inspector has seen, when a new inspector begins."""
        if size:
            self._unseen = [self._unseen[0] + size, self._unseen[1] + frames, self._unseen[2] + 1]

    def mark_lost(self) -> None:
        """Record that the inspector is lost."""
        if not self.lost:
            self.lost = True
            self.gone = self._is_last
            self._lost_at = time.time_ns()
            self._outbox.abandon()
            self.packed = False
            self.behind.clear()
            self._release()

    @property
    def is_last(self) -> bool:
        """Whether no inspector can follow the current one."""
        return self._is_last

    def mark_last(self) -> None:
        """Note that no inspector will follow the current one."""
        self._is_last = True

    def give_up(self) -> None:
        """Note that the inspector is lost and none will follow."""
        self.mark_lost()
        self.gone = True
        self.connections.clear()

    def resume(self, sock: socket.socket) -> None:
        """Announce all connections to a new inspector at the other end of `sock`."""
        assert self._table is not None
        self._outbox = self._make_send_queue(sock)
        self.lost = False
        self.messages = 0
        self.inspector += 1
        now = time.time_ns()
        self._send_hello(now)
        missed = self._missed.take_back(self._table.missed())
        self._unseen = [missed.size, missed.frames, missed.connections]
        self._send_missed()
        self.connections.queue_announcements()
        self._announce_some(self.inspector)

    def _announce_all(self) -> None:
        """Announce the remaining connections to a new inspector."""
        while self.connections.has_late and not self.lost:
            self._announce_some(self.inspector)

    def _announce_some(self, inspector: int) -> None:
        """Announce connections to a new inspector, a few in each turn of the loop."""
        if self.lost or inspector != self.inspector or self._announced == inspector:
            return
        now = time.time_ns()
        for connection in self.connections.take_late(_ANNOUNCED_AT_ONCE):
            self.look_for_room()
            connection.catch_up(now)
        if self.connections.has_late:
            asyncio.get_running_loop().call_soon(self._announce_some, inspector)
        else:
            self._announced = inspector
            self._report(InspectorResumed((now - self._lost_at) / 1e9, *self._unseen))

    def _send_hello(self, at: int) -> None:
        hello = tap_messages.Hello(
            at, self._node, os.getpid(), self._listeners, self._started, self.inspector, self._lost_at, self._sample
        )
        self.put(tap_protocol.encode_hello(hello))

    def _make_send_queue(self, sock: socket.socket) -> SendQueue:
        if self._figures is None:
            return SendQueue(sock, self._on_sent, self._on_lost)
        self._figures.begin()
        return SendQueue(sock, self._on_sent, self._on_lost, self._figures.receive)

    def _on_sent(self) -> None:
        self.connections.free_confirmed()
        self.look_for_room()
        if self._over_limit and self.queued <= self._limit // 2:
            self._release()
            self._send_gaps()

    def _send_gaps(self) -> None:
        now = time.time_ns()
        for stream in list(self.behind):
            stream.send_gaps(now)
        self._send_missed()

    def _send_missed(self) -> None:
        for missed in self._missed.take(time.time_ns()):
            self.put(tap_protocol.encode_missed(missed))

    def _release(self) -> None:
        self._over_limit = self.full = False
        if self.strict:
            self._on_pressure(False)

    def _on_lost(self, error: OSError) -> None:
        self.mark_lost()
        if self.gone:
            self._report_lost(error)
