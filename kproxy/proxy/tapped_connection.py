"""What the tap sends about one connection: its beginning, its end, and both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissectors.connections.events import Direction
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.tapped_stream import TappedStream

if TYPE_CHECKING:
    from kproxy.proxy.tap import Tap


class TappedConnection:
    """Both directions of a connection: `streams`, by `Direction`.

    Attributes:
        announced: Whether the current inspector knows the connection.
        inspector: The number of the last inspector to which it was announced, or for which there was no room to.
        slot: Its slot in the `InspectedTable`.
    """

    __slots__ = ("_closed", "_known", "_opened", "_tap", "announced", "inspector", "slot", "streams")

    def __init__(self, tap: Tap, opened: tap_messages.Open) -> None:
        self._tap = tap
        self._opened = opened
        self._known = False  # to any inspector, even a lost one
        self._closed: tap_messages.Close | None = None
        self.slot = opened.slot
        self.inspector = tap.inspector
        self.announced = False
        if not tap.lost and not tap.packed:
            self.announce(opened.at)
        self.streams = tuple(TappedStream(tap, self, opened.connection_id, direction) for direction in Direction)

    @property
    def id(self) -> int:
        """The number of the connection."""
        return self._opened.connection_id

    @property
    def client(self) -> str:
        """The client's address."""
        return self._opened.client

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed is not None

    @property
    def unseen(self) -> tuple[int, int]:
        """The bytes and frames that no inspector has reported, as far as is known while none is running."""
        unseen = [stream.unseen for stream in self.streams]
        return sum(size for size, _ in unseen), sum(frames for _, frames in unseen)

    def announce(self, at: int) -> None:
        """Announce the connection, unless the current inspector knows it."""
        if self.announced:
            return
        opened = self._opened
        if self._known:
            request, response = (stream.inspected for stream in self.streams)
            opened = opened._replace(at=at, resumed=(request, response))
        self._tap.put(tap_protocol.encode_open(opened))
        self.announced = self._known = True

    def catch_up(self, at: int) -> None:
        """Announce the connection to an inspector that began later. Bytes that no inspector has seen become a gap."""
        tap = self._tap
        if tap.lost or self.inspector == tap.inspector:
            return
        self.inspector = tap.inspector
        self.announced = False
        for stream in self.streams:
            stream.resume(*tap.connections.inspected(self, stream.direction))
        tap.count_unseen(*self.unseen)
        if self._closed is not None:
            self._send_close(at)
        elif not tap.packed:
            self.announce(at)
            for stream in self.streams:
                stream.send_gaps(at)

    def tls_failed(self, side: str, by: str, reason: str, name: str | None, detail: str, at: int) -> None:
        """Send a `TlsFailed`, if there is room for it."""
        if not self._tap.packed:
            self.announce(at)
            self._tap.put(
                tap_protocol.encode_tls_failed(tap_messages.TapTlsFailed(self.id, at, side, by, reason, name, detail))
            )

    def close(self, by: str, how: str, at: int, request_bytes: int, response_bytes: int) -> None:
        """Send that the connection is closed, see `tap_messages.Close`; the bytes are those relayed per direction."""
        self.catch_up(at)
        self._closed = tap_messages.Close(self.id, at, by, how, request_bytes, response_bytes)
        tap = self._tap
        tap.connections.remove(self)
        if not tap.lost:
            self._send_close(at)
        elif self._known and tap.has_room:
            tap.keep_closed(self)
        else:
            for stream in self.streams:
                stream.inspected = (*tap.connections.inspected(self, stream.direction), True)
            tap.count_missed(self)

    def _send_close(self, at: int) -> None:
        assert self._closed is not None
        tap, closed = self._tap, self._closed
        if not self.announced and tap.packed:
            tap.count_missed(self)
            return
        self.announce(at)
        for stream in self.streams:
            stream.finish(at)
        tap.put(tap_protocol.encode_close(*closed._replace(at=at)))
        tap.keep_closed(self)
