"""A relayed connection whose frames interceptors can change."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Sequence

from dissectors.connections.events import Direction
from dissectors.interception.intercepted_connection import InterceptedConnection
from dissectors.interception.intercepted_stream import Delivery
from kproxy.proxy.connection import ConnectionEnd, RelayedConnection
from kproxy.proxy.side import HoldReason, Side
from kproxy.proxy.tapped_connection import TappedConnection
from kproxy.proxy.tls.stream import TlsStream


class InterceptingConnection(RelayedConnection):
    """Sends what the interceptors return. The tap gets the bytes received, and those sent in their place.

    Args:
        frames: Applies the interceptors.
    """

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        buffer: memoryview,
        tapped: TappedConnection | None,
        frames: InterceptedConnection,
        tls: tuple[TlsStream | None, TlsStream | None] = (None, None),
    ) -> None:
        super().__init__(client, server, buffer, tapped, tls)
        self._frames = frames
        self._delayed: tuple[deque[Delivery], deque[Delivery]] = (deque(), deque())

    def pass_on(self, side: Side, chunk: bytes, at: int) -> None:
        """Apply the interceptors to the bytes that this side has received, and send the result."""
        deliveries = self._frames.receive_data(side.direction, chunk)
        if len(deliveries) == 1:
            _, received, sent, delay, close = deliveries[0]
            if sent is received and not (delay or close or self._delayed[side.direction]):
                super().pass_on(side, sent, at)
                return
        self._deliver(deliveries, at)

    def half_closed(self, side: Side) -> None:
        """Send the held part of an incomplete frame, then end the direction."""
        self._deliver(self._frames.end(side.direction), time.time_ns())
        super().half_closed(side)

    def _deliver(self, deliveries: Sequence[Delivery], at: int) -> None:
        for direction in Direction:
            self._send_all(direction, [delivery for delivery in deliveries if delivery.direction is direction])
        if self._tapped is not None:
            for delivery in deliveries:
                stream = self._tapped.streams[delivery.direction]
                if delivery.sent is not delivery.received and delivery.received and delivery.sent:
                    stream.send_replacement(delivery.sent, at)
                stream.receive_data(delivery.received or delivery.sent, at)

    def _send_all(self, direction: Direction, deliveries: Sequence[Delivery]) -> None:
        """Send deliveries in order, up to the first delayed one; the rest follow later."""
        delayed = self._delayed[direction]
        chunks = []
        for index, delivery in enumerate(deliveries):
            if delayed or delivery.delay:
                if not delayed:
                    self._sides[direction].hold(HoldReason.DELAY)
                    asyncio.get_running_loop().call_later(delivery.delay, self._resume, direction)
                delayed.extend(deliveries[index:])
                break
            chunks.append(delivery.sent)
            if delivery.close:
                self._send(direction, b"".join(chunks))
                self._ending = self._ending or ConnectionEnd("proxy", "fin")
                self.close()
                return
        self._send(direction, b"".join(chunks))

    def _resume(self, direction: Direction) -> None:
        """Send the oldest delayed delivery, and those that wait behind it."""
        delayed = self._delayed[direction]
        deliveries = [delayed[0]._replace(delay=0.0), *list(delayed)[1:]]
        delayed.clear()
        self._send_all(direction, deliveries)
        if not delayed:
            self._sides[direction].release(HoldReason.DELAY)

    def _send(self, direction: Direction, data: bytes) -> None:
        target = self._sides[direction].peer
        if data and (failure := target.send(data)) is not None:
            target.lose(failure)
