"""Viewer: the proxy's end of a connection to the control socket. A slow or faulty viewer does not affect others."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from kproxy.control.protocol import MAX_REQUEST_BYTES, Listening
from kproxy.trace.encoding import encode_json, encode_line
from kproxy.trace.lines import FORMAT, GapLine
from kproxy.trace.timestamps import timestamp

BUFFER_BYTES: Final = 8 << 20
#: The reason given in gap lines for dropped lines.
BEHIND: Final = "the viewer is too slow"
#: A viewer that has missed lines is closed if it reads nothing for this long.
READ_TIMEOUT_S: Final = 60.0
_FLUSH_BYTES: Final = 64 * 1024
_SEND_BYTES: Final = 256 * 1024
_RECEIVE_BYTES: Final = 16 * 1024


class Viewer:
    """Sends without blocking. Lines that do not fit into the buffer are dropped, counted and reported as a gap.

    Args:
        sock: A connected socket. The viewer closes it.
        selector: Where the viewer registers its socket, with `ready` as data.
        on_request: Called with the viewer and each line that the peer sent.
        on_closed: Called once with the viewer when it is closed.
        limit: Size of the send buffer in bytes.
    """

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        on_request: Callable[[Viewer, bytes], None],
        on_closed: Callable[[Viewer], None],
        limit: int = BUFFER_BYTES,
    ) -> None:
        self.is_watching = False
        self.wants_frames = False
        self.wants_payloads = False
        self.listeners: Sequence[Listening] = ()  # as last sent
        self._socket = sock
        self._selector = selector
        self._on_request = on_request
        self._on_closed = on_closed
        self._limit = limit
        self._received = bytearray()
        self._out = bytearray()
        self._flush_at = _FLUSH_BYTES  # bytes in `_out` at which the next send is tried
        self._is_mid_line = False  # whether the last sent byte is inside a line
        self._dropped = 0
        self._progress_at = time.monotonic()
        self._read_closed = False  # whether requests are no longer read
        self._ending = False
        self._closed = False
        self._events = 0
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._update_events()

    def reply(self, **fields: Any) -> None:
        """Queue a line that is never dropped, e.g. a reply."""
        self._out += encode_json(fields) + b"\n"

    def put(self, line: bytes) -> None:
        """Queue a trace line, or drop it if the buffer is full. A line larger than the buffer is sent alone."""
        if self._dropped or (self._out and len(self._out) + len(line) > self._limit):
            self._dropped += 1
            return
        self._out += line
        if len(self._out) >= self._flush_at:
            self.flush()

    def flush(self) -> None:
        """Send as much as the socket accepts."""
        try:
            while self._out:
                with memoryview(self._out) as buffer, buffer[:_SEND_BYTES] as chunk:
                    sent_size = self._socket.send(chunk)
                    self._is_mid_line = chunk[sent_size - 1] != ord("\n")
                del self._out[:sent_size]
                self._progress_at = time.monotonic()
                if self._dropped and len(self._out) <= self._limit // 2:
                    self._put_gap()
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._flush_at = len(self._out) + _FLUSH_BYTES
        if not self._out and (self._ending or (self._read_closed and not self.is_watching)):
            self.close()
        else:
            self._update_events()

    def on_ready(self, events: int) -> None:
        """Handle events of the selector."""
        if events & selectors.EVENT_READ and not self._read_closed:
            self._read()
        if not self._closed:
            self.flush()

    def tick(self) -> None:
        """Close the viewer if its peer is gone or does not read; called every second."""
        if (self._dropped or self._ending) and time.monotonic() - self._progress_at > READ_TIMEOUT_S:
            self.close() if self._ending else self.end(f"the viewer read nothing for {READ_TIMEOUT_S:g} s")
        elif self._read_closed:
            self._probe()

    def end(self, reason: str | None = None) -> None:
        """Send the buffer, then close. With `reason`, send only the rest of the current line and the reason."""
        if reason is not None:
            del self._out[self._out.find(b"\n") + 1 if self._is_mid_line else 0 :]
            self.reply(error=reason)
            self._dropped = 0
        elif self._dropped:
            self._put_gap()
        self._ending = self._read_closed = True
        self._progress_at = time.monotonic()
        self.flush()

    def close(self) -> None:
        """Close the connection."""
        if self._closed:
            return
        self._closed = True
        self._out.clear()
        self._read_closed = True
        self._update_events()
        self._socket.close()
        self._on_closed(self)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self._read_closed = True
            self._probe()
        self._received += data
        *requests, self._received = self._received.split(b"\n")
        for request in requests:
            if len(self._out) > self._limit:
                self.end("the viewer sends requests but does not read the answers")
            if self._read_closed:
                return
            self._on_request(self, bytes(request))
        if len(self._received) > MAX_REQUEST_BYTES:
            self.end(f"a request is limited to {MAX_REQUEST_BYTES} bytes")

    def _probe(self) -> None:
        """Close the connection if the peer is gone. A peer that has only shut down its sending side may still read."""
        try:
            self._socket.send(b"")
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def _put_gap(self) -> None:
        dropped, self._dropped = self._dropped, 0
        gap_ts = timestamp(time.time_ns())
        self._out += encode_line(
            GapLine(v=FORMAT, ts=gap_ts, connection_id="", direction="both", bytes=0, frames=dropped, reason=BEHIND)
        )

    def _update_events(self) -> None:
        events = (0 if self._read_closed else selectors.EVENT_READ) | (selectors.EVENT_WRITE if self._out else 0)
        if events == self._events:
            return
        if not self._events:
            self._selector.register(self._socket, events, self.on_ready)
        elif events:
            self._selector.modify(self._socket, events, self.on_ready)
        else:
            self._selector.unregister(self._socket)
        self._events = events
