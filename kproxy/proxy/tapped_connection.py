"""What the tap tells of one connection: its beginning, its end, and both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissectors.connections.events import Direction
from kproxy.proxy import tap_protocol
from kproxy.proxy.tapped_stream import TappedStream

if TYPE_CHECKING:
    from kproxy.proxy.tap import Tap


class TappedConnection:
    """Both directions of a connection: `streams`, by `Direction`.

    Attributes:
        announced: The inspector knows of it.
        inspector: The number of the inspector for which it was last announced, or would have been.
        slot: Its place in the `InspectedTable`.
    """

    __slots__ = ("_closed", "_known", "_opened", "_tap", "announced", "inspector", "slot", "streams")

    def __init__(self, tap: Tap, opened: tap_protocol.Open) -> None:
        self._tap = tap
        self._opened = opened
        self._known = False  # by an inspector, even if that is gone
        self._closed: tap_protocol.Close | None = None
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
    def is_closed(self) -> bool:
        """The connection is over."""
        return self._closed is not None

    @property
    def unseen(self) -> tuple[int, int]:
        """Bytes and frames that no inspector has reported, as far as is known without one that runs."""
        unseen = [stream.unseen for stream in self.streams]
        return sum(size for size, _ in unseen), sum(frames for _, frames in unseen)

    def announce(self, at: int) -> None:
        """Tell of the connection, if there was no room for that when it began, or an earlier inspector knew it."""
        if self.announced:
            return
        opened = self._opened
        if self._known:
            request, response = (stream.inspected for stream in self.streams)
            opened = opened._replace(at=at, resumed=(request, response))
        self._tap.put(tap_protocol.encode_open(opened))
        self.announced = self._known = True

    def catch_up(self, at: int) -> None:
        """Tell an inspector that began after this connection of it; what none has inspected becomes a gap."""
        tap = self._tap
        if tap.lost or self.inspector == tap.inspector:
            return
        self.inspector = tap.inspector
        self.announced = False
        for stream in self.streams:
            stream.resume(*tap.inspected(self.slot, stream.direction))
        tap.count_unseen(*self.unseen)
        if self._closed is not None:
            self._tell_close(at)
        elif not tap.packed:
            self.announce(at)
            for stream in self.streams:
                stream.settle(at)

    def tls_failed(self, side: str, by: str, reason: str, name: str | None, detail: str, at: int) -> None:
        """See `TlsFailed`; left out if there is no room for it."""
        if not self._tap.packed:
            self.announce(at)
            self._tap.put(
                tap_protocol.encode_tls_failed(tap_protocol.TapTlsFailed(self.id, at, side, by, reason, name, detail))
            )

    def close(self, by: str, how: str, at: int, request_bytes: int, response_bytes: int) -> None:
        """The connection is over, see `tap_protocol.Close`; the bytes are those relayed each way."""
        self.catch_up(at)
        self._closed = tap_protocol.Close(self.id, at, by, how, request_bytes, response_bytes)
        tap = self._tap
        tap.forget(self)
        if not tap.lost:
            self._tell_close(at)
        elif self._known and not tap.packed:
            tap.linger(self)
        else:
            for stream in self.streams:
                stream.inspected = (*tap.inspected(self.slot, stream.direction), True)
            tap.miss(self)

    def _tell_close(self, at: int) -> None:
        assert self._closed is not None
        tap, closed = self._tap, self._closed
        if not self.announced and tap.packed:
            tap.miss(self)
            return
        self.announce(at)
        for stream in self.streams:
            stream.finish(at)
        tap.put(tap_protocol.encode_close(*closed._replace(at=at)))
        tap.linger(self)
