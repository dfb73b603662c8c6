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
    """Sends what the interceptors decide. The tap gets what was received, and what was sent instead.

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
        """Apply the interceptors to what this side has received, and send the result."""
        deliveries = self._frames.receive_data(side.direction, chunk)
        if len(deliveries) == 1:
            _, received, sent, delay, close = deliveries[0]
            if sent is received and not (delay or close or self._delayed[side.direction]):
                super().pass_on(side, sent, at)
                return
        self._apply(deliveries, at)

    def half_closed(self, side: Side) -> None:
        """Send what is held of an incomplete frame, then end the direction."""
        self._apply(self._frames.end(side.direction), time.time_ns())
        super().half_closed(side)

    def _apply(self, deliveries: Sequence[Delivery], at: int) -> None:
        for direction in Direction:
            self._send_all(direction, [delivery for delivery in deliveries if delivery.direction is direction])
        if self._tapped is not None:
            for delivery in deliveries:
                stream = self._tapped.streams[delivery.direction]
                if delivery.sent is not delivery.received and delivery.received and delivery.sent:
                    stream.replaced(delivery.sent, at)
                stream.data(delivery.received or delivery.sent, at)

    def _send_all(self, direction: Direction, outputs: Sequence[Delivery]) -> None:
        """Send outputs in order, up to the first that is delayed; the others follow later."""
        delayed = self._delayed[direction]
        pieces = []
        for index, output in enumerate(outputs):
            if delayed or output.delay:
                if not delayed:
                    self._sides[direction].hold(HoldReason.DELAY)
                    asyncio.get_running_loop().call_later(output.delay, self._resume, direction)
                delayed.extend(outputs[index:])
                break
            pieces.append(output.sent)
            if output.close:
                self._send(direction, b"".join(pieces))
                self._ending = self._ending or ConnectionEnd("proxy", "fin")
                self.close()
                return
        self._send(direction, b"".join(pieces))

    def _resume(self, direction: Direction) -> None:
        """Send the oldest delayed output, and those behind it."""
        delayed = self._delayed[direction]
        outputs = [delayed[0]._replace(delay=0.0), *list(delayed)[1:]]
        delayed.clear()
        self._send_all(direction, outputs)
        if not delayed:
            self._sides[direction].release(HoldReason.DELAY)

    def _send(self, direction: Direction, data: bytes) -> None:
        target = self._sides[direction].peer
        if data and (failure := target.send(data)) is not None:
            target.lose(failure)
