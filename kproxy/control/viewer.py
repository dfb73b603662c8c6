"""Viewer: one connection to the control socket, as the proxy sees it. Whoever is slow or wrong is alone with it."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from kproxy.control.protocol import MAX_REQUEST_BYTES
from kproxy.trace.encoding import encode_json, encode_line
from kproxy.trace.lines import FORMAT, GapLine
from kproxy.trace.timestamps import timestamp

BUFFER_BYTES: Final = 8 << 20
#: Why lines are missing.
BEHIND: Final = "the viewer is too slow"
#: For this long a viewer may take nothing of what it should have taken long ago.
PATIENCE_S: Final = 60.0
_WORTH_SENDING: Final = 64 * 1024
_SENT_AT_ONCE: Final = 256 * 1024
_READ_AT_ONCE: Final = 16 * 1024


class Viewer:
    """Sends what it can and never waits; lines for which there is no room are dropped, counted and told as a gap.

    Args:
        sock: Connected; closed when the viewer is.
        selector: Told what to wait for, with `ready` as data.
        on_request: Called with the viewer and a line that it sent.
        on_closed: Called once.
        limit: Bytes that may wait to be taken.
    """

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        on_request: Callable[[Viewer, bytes], None],
        on_closed: Callable[[Viewer], None],
        limit: int = BUFFER_BYTES,
    ) -> None:
        self.watching = False
        self.frames = False
        self._socket = sock
        self._selector = selector
        self._on_request = on_request
        self._on_closed = on_closed
        self._limit = limit
        self._in = bytearray()
        self._out = bytearray()
        self._try_at = _WORTH_SENDING  # bytes in `_out` at which it is worth to try again
        self._torn = False  # the last byte that was taken stands inside a line
        self._missed = 0
        self._taken_at = time.monotonic()
        self._deaf = False  # it will not say anything more, or nobody listens
        self._ending = False
        self._closed = False
        self._wanted = 0
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._want()

    def reply(self, **fields: Any) -> None:
        """Send a line that is never dropped."""
        self._out += encode_json(fields) + b"\n"

    def put(self, line: bytes) -> None:
        """Send a line of the trace if there is room; one that is larger than all the room goes alone."""
        if self._missed or (self._out and len(self._out) + len(line) > self._limit):
            self._missed += 1
            return
        self._out += line
        if len(self._out) >= self._try_at:
            self.flush()

    def flush(self) -> None:
        """Hand over what can be taken now."""
        try:
            while self._out:
                with memoryview(self._out) as whole, whole[:_SENT_AT_ONCE] as part:
                    sent = self._socket.send(part)
                    self._torn = part[sent - 1] != ord("\n")
                del self._out[:sent]
                self._taken_at = time.monotonic()
                if self._missed and len(self._out) <= self._limit // 2:
                    self._tell_missed()
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._try_at = len(self._out) + _WORTH_SENDING
        if not self._out and (self._ending or (self._deaf and not self.watching)):
            self.close()
        else:
            self._want()

    def ready(self, events: int) -> None:
        """The selector found something to do."""
        if events & selectors.EVENT_READ and not self._deaf:
            self._read()
        if not self._closed:
            self.flush()

    def tick(self) -> None:
        """A second has passed: see whether there is still somebody, and whether they read."""
        if (self._missed or self._ending) and time.monotonic() - self._taken_at > PATIENCE_S:
            self.close() if self._ending else self.end(f"the viewer read nothing for {PATIENCE_S:g} s")
        elif self._deaf:
            self._probe()

    def end(self, why: str | None = None) -> None:
        """Send what waits, or just an error and before it the rest of the line that has begun; then close."""
        if why is not None:
            del self._out[self._out.find(b"\n") + 1 if self._torn else 0 :]
            self.reply(error=why)
            self._missed = 0
        elif self._missed:
            self._tell_missed()
        self._ending = self._deaf = True
        self._taken_at = time.monotonic()
        self.flush()

    def close(self) -> None:
        """It is over."""
        if self._closed:
            return
        self._closed = True
        self._out.clear()
        self._deaf = True
        self._want()
        self._socket.close()
        self._on_closed(self)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self._deaf = True
            self._probe()
        self._in += data
        *requests, self._in = self._in.split(b"\n")
        for request in requests:
            if len(self._out) > self._limit:
                self.end("the viewer sends requests but does not read the answers")
            if self._deaf:
                return
            self._on_request(self, bytes(request))
        if len(self._in) > MAX_REQUEST_BYTES:
            self.end(f"a request is limited to {MAX_REQUEST_BYTES} bytes")

    def _probe(self) -> None:
        """Close it if nobody is there: who has only ended what it sends may still read."""
        try:
            self._socket.send(b"")
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def _tell_missed(self) -> None:
        missed, self._missed = self._missed, 0
        now = timestamp(time.time_ns())
        self._out += encode_line(
            GapLine(v=FORMAT, ts=now, connection_id="", direction="both", bytes=0, frames=missed, reason=BEHIND)
        )

    def _want(self) -> None:
        wanted = (0 if self._deaf else selectors.EVENT_READ) | (selectors.EVENT_WRITE if self._out else 0)
        if wanted == self._wanted:
            return
        if not self._wanted:
            self._selector.register(self._socket, wanted, self.ready)
        elif wanted:
            self._selector.modify(self._socket, wanted, self.ready)
        else:
            self._selector.unregister(self._socket)
        self._wanted = wanted
