"""Cuts one direction of a connection into frames, and finds the next one again after bytes were lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dissectors.foreign import PROXY_V1, PROXY_V2, Foreign, foreign, proxy_header

#: Kafka's own default limit for a request (socket.request.max.bytes).
MAX_FRAME_BYTES = 100 * 1024 * 1024
#: Larger frames are cut and paired, but only their head is kept.
MAX_DECODED_BYTES = 32 * 1024 * 1024
#: Enough of a frame for its header.
HEAD_BYTES = 512

#: Says whether a frame may begin at that position of the buffer.
Plausible = Callable[[bytearray, int], bool]


class Frame(NamedTuple):
    """A frame with its length prefix; `data` is shorter than `size` + 4 where `damaged` says why."""

    offset: int
    data: bytes
    size: int
    damaged: str | None = None


class Skipped(NamedTuple):
    """Bytes that belong to no frame that could be had."""

    offset: int
    size: int
    reason: str


class Lost(NamedTuple):
    """No frame begins here."""

    offset: int
    reason: str
    named: Foreign | None


class Proxied(NamedTuple):
    """A PROXY protocol header was passed over."""

    version: int
    size: int


class Framer:
    """One direction. Feed it bytes in order, in chunks of any size; what comes out does not depend on the chunks.

    Args:
        least: The smallest length prefix that can be one.
        head: Bytes that `plausible` looks at.
        plausible: Used only after bytes were lost, or at the start if `seeking`.
        max_frame_bytes: A longer length prefix cannot be one.
        max_decoded_bytes: Of a longer frame only the head is kept.
        seeking: The stream begins in the middle.
    """

    def __init__(
        self,
        least: int,
        head: int,
        plausible: Plausible,
        max_frame_bytes: int,
        max_decoded_bytes: int,
        *,
        seeking: bool,
    ) -> None:
        self.least = least
        self._head = head
        self.lost = False
        self.offset = 0  # of the first byte of the buffer in its stream
        self._plausible = plausible
        self._max_frame = max_frame_bytes
        self._max_decoded = max_decoded_bytes
        self._buffer = bytearray()
        self._need = 4
        self._pass_over = 0  # bytes that follow and belong to a frame already reported
        self._seeking = "the capture starts in the middle of the stream" if seeking else None
        self._sought = 0  # bytes passed over so far while looking for a frame
        self._fresh = not seeking  # nothing has been read yet

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return 0 if self._seeking else len(self._buffer)

    def push(self, data: bytes) -> list[Frame | Skipped | Lost | Proxied]:
        """Take the next bytes; return what they completed."""
        if self.lost:
            self.offset += len(data)
            return []
        if self._pass_over:
            passed = min(self._pass_over, len(data))
            self._pass_over -= passed
            self.offset += passed
            data = data[passed:]
        if not self._buffer and not self._fresh and not self._seeking:
            return self._cut(data)
        self._buffer += data
        if len(self._buffer) < self._need:
            return []
        made: list[Frame | Skipped | Lost | Proxied] = []
        if self._seeking and not self._seek(made):
            return made
        if self._fresh and not self._begin(made):
            return made
        whole = bytes(self._buffer)
        self._buffer.clear()
        return made + self._cut(whole)

    def lose(self, size: int) -> list[Frame | Skipped | Lost | Proxied]:
        """The next `size` bytes were lost; the frame that they cut short comes out with what there is of it."""
        have, head = len(self._buffer), bytes(self._buffer[:HEAD_BYTES])
        self.offset += have + size
        self._buffer.clear()
        if self.lost:
            return []
        if self._pass_over >= size:
            self._pass_over -= size
            return []
        made: list[Frame | Skipped | Lost | Proxied] = []
        left = -1
        if have >= 4 and not self._seeking and not self._fresh:
            frame_size = int.from_bytes(head[:4], "big", signed=True)
            left = 4 + frame_size - have - size
            made.append(Frame(self.offset - have - size, head, frame_size, f"{size} bytes of it were lost"))
        else:
            self._sought += have
        self._need = 4
        self._pass_over = max(left, 0)
        if left < 0:
            self._seeking = self._seeking or f"{size} bytes were lost"
            self._fresh = False
        return made

    def skip(self, head: bytes, size: int, reason: str) -> list[Frame | Skipped | Lost | Proxied]:
        """A whole frame passed by of which only the head is known."""
        frame = Frame(self.offset, head, size, reason)
        self._fresh = False
        self.offset += size + 4
        return [] if self.lost else [frame]

    def end(self) -> list[Frame | Skipped | Lost | Proxied]:
        """The stream is over: report what was passed over and led nowhere."""
        sought = self._sought + len(self._buffer) if self._seeking else 0
        return [Skipped(self.offset - self._sought, sought, self._seeking or "")] if sought else []

    def _cut(self, data: bytes) -> list[Frame | Skipped | Lost | Proxied]:
        """Frames from `data`, which begins at a frame; the rest goes to the buffer."""
        made: list[Frame | Skipped | Lost | Proxied] = []
        pos, end = 0, len(data)
        while end - pos >= 4:
            size = int.from_bytes(data[pos : pos + 4], "big", signed=True)
            if size < self.least or size > self._max_frame:
                self._lose_framing(data[pos : pos + 4], size, made)
                self.offset += end - pos
                return made
            stop = pos + 4 + size
            if size > self._max_decoded:
                if end - pos < HEAD_BYTES:
                    break
                head = data[pos : pos + HEAD_BYTES]
                reason = f"over the limit of {self._max_decoded} bytes for decoding"
                made.append(Frame(self.offset, head, size, reason))
                self._pass_over = max(stop - end, 0)
                self.offset += min(stop, end) - pos
                pos = min(stop, end)
                continue
            if stop > end:
                break
            made.append(Frame(self.offset, data if stop - pos == end else data[pos:stop], size))
            self.offset += stop - pos
            pos = stop
        if pos < end:
            self._buffer += data[pos:] if pos else data
            self._need = 4
            if len(self._buffer) >= 4:
                size = int.from_bytes(self._buffer[:4], "big", signed=True)
                self._need = HEAD_BYTES if size > self._max_decoded else 4 + size
        else:
            self._need = 4
        return made

    def _lose_framing(self, start: bytes, size: int, made: list[Frame | Skipped | Lost | Proxied]) -> None:
        self.lost = True
        self._buffer.clear()
        made.append(Lost(self.offset, f"length prefix says {size} bytes", foreign(start)))

    def _begin(self, made: list[Frame | Skipped | Lost | Proxied]) -> bool:
        """The first bytes of a stream: a PROXY header may stand before the first frame."""
        start = bytes(self._buffer[:4])
        if start in (PROXY_V1[:4], PROXY_V2[:4]):
            header = proxy_header(bytes(self._buffer[:108]))
            if header is not None and header.size > len(self._buffer):
                self._need = header.size
                return False
            if header is not None:
                made.append(Proxied(*header))
                del self._buffer[: header.size]
                self.offset += header.size
                self._need = 4
        self._fresh = False
        return True

    def _seek(self, made: list[Frame | Skipped | Lost | Proxied]) -> bool:
        """Look for a frame in the buffer; bytes in which none can begin are let go."""
        candidates = max(len(self._buffer) - self._head + 1, 0)
        for pos in range(candidates):
            if self._buffer[pos] <= 6 and self._plausible(self._buffer, pos):
                self._sought += pos
                self.offset += pos
                del self._buffer[:pos]
                if self._sought:
                    made.append(Skipped(self.offset - self._sought, self._sought, self._seeking or ""))
                self._seeking, self._sought = None, 0
                return True
        del self._buffer[:candidates]
        self.offset += candidates
        self._sought += candidates
        return False
