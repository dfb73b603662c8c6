"""Cuts one direction of a connection into frames, and finds the next one again after bytes were lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from dissectors.connections.protocol_detection import (
    PROXY_BYTES,
    PROXY_V1,
    PROXY_V2,
    START_BYTES,
    OtherProtocol,
    detect_protocol,
    proxy_header,
)
from dissectors.connections.resync import FrameFinder

#: Kafka's own default limit for a request (socket.request.max.bytes).
MAX_FRAME_BYTES = 100 * 1024 * 1024
#: Larger frames are cut and paired, but only their head is kept.
MAX_DECODED_BYTES = 32 * 1024 * 1024
#: Enough of a frame for its header.
HEAD_BYTES = 512
#: Why the first bytes of a stream may be passed over.
MIDSTREAM = "the capture starts in the middle of the stream"


class Frame(NamedTuple):
    """A frame with its length prefix; `data` is shorter than `size` + 4 where `damaged` says why."""

    offset: int
    data: bytes
    size: int
    damaged: str | None = None


class SkippedBytes(NamedTuple):
    """Bytes that belong to no frame that could be had."""

    offset: int
    size: int
    reason: str


class NoFrame(NamedTuple):
    """No frame begins here."""

    offset: int
    reason: str
    named: OtherProtocol | None
    size: int


class Proxied(NamedTuple):
    """A PROXY protocol header was passed over."""

    version: int
    size: int


Item: TypeAlias = Frame | SkippedBytes | NoFrame | Proxied


class Framer:
    """One direction. Feed it bytes in order, in chunks of any size; what comes out does not depend on the chunks.

    Args:
        least: The smallest length prefix that can be one.
        seeker: Used after bytes were lost, and at the start if `seeking`.
        max_frame_bytes: A longer length prefix cannot be one.
        max_decoded_bytes: Of a longer frame only the head is kept.
        seeking: The stream begins in the middle.
    """

    def __init__(
        self,
        least: int,
        seeker: FrameFinder,
        max_frame_bytes: int,
        max_decoded_bytes: int,
        *,
        seeking: bool,
    ) -> None:
        self.least = least
        self.lost = False
        self.offset = 0  # of the first byte of the buffer in its stream
        self._seeker = seeker
        self._max_frame = max_frame_bytes
        self._max_decoded = max_decoded_bytes
        self._max_whole = min(max_frame_bytes, max_decoded_bytes)
        self._buffer = bytearray()
        self._need = 4
        self._pass_over = 0  # bytes that follow and belong to a frame already reported
        self._seeking = MIDSTREAM if seeking else None
        self._sought = 0  # bytes let go while looking for a frame
        self._fresh = not seeking  # no frame has begun yet

    def limit(self, max_decoded_bytes: int) -> None:
        """From now on, only the head is kept of a frame longer than this, also of one that is under way."""
        self._max_decoded = max_decoded_bytes
        self._max_whole = min(self._max_frame, max_decoded_bytes)

    @property
    def received(self) -> int:
        """The bytes of the stream so far, those that were lost too."""
        return self.offset + len(self._buffer)

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return 0 if self._seeking else len(self._buffer)

    @property
    def pending_size(self) -> int:
        """The bytes that the frame which is not whole yet says to have, 0 as long as that is not known."""
        return 4 + int.from_bytes(self._buffer[:4], "big", signed=True) if self.pending >= 4 else 0

    @property
    def is_between_frames(self) -> bool:
        """Whether a frame begins with the next byte."""
        return not self._buffer

    @property
    def reported(self) -> int:
        """Where in the stream what was reported ends; behind what was received if a long frame is passed over."""
        return self.offset + self._pass_over - self._sought

    def resume(self, offset: int, *, in_step: bool) -> None:
        """The next byte is at `offset` of the stream; `in_step`: a frame is known to begin there."""
        self.offset = offset
        if in_step:
            self._seeking = None
            self._fresh = offset == 0

    def push(self, data: bytes) -> Iterable[Item]:
        """Take the next bytes; give what they completed.

        Iterate to the end: what is made of one frame may change `least` for the next.
        """
        if self.lost:
            self.offset += len(data)
            return []
        if self._pass_over:
            passed = min(self._pass_over, len(data))
            self._pass_over -= passed
            self.offset += passed
            data = data[passed:]
        if not self._buffer and not self._fresh and not self._seeking:
            size = len(data) - 4
            if self.least <= size <= self._max_whole and int.from_bytes(data[:4], "big") == size:
                frame = Frame(self.offset, data, size)  # as almost all frames come
                self.offset += size + 4
                self._need = 4
                return (frame,)
            return self._cut(data)
        self._buffer += data
        if len(self._buffer) < self._need:
            return []
        made: list[Item] = []
        if self._seeking and not self._seek(made):
            return made
        if self._fresh and not self._begin(made):
            return made
        whole = bytes(self._buffer)
        self._buffer.clear()
        return itertools.chain(made, self._cut(whole))

    def lose(self, size: int, *, in_step: bool = False) -> list[Item]:
        """The next `size` bytes were lost; the frame that they cut short comes out with what there is of it.

        `in_step`: a frame is known to begin behind them.
        """
        if self.lost or self._pass_over >= size:
            self._pass_over = max(self._pass_over - size, 0)
            self.offset += size
            return []
        made: list[Item] = []
        have, frame_size = len(self._buffer), int.from_bytes(self._buffer[:4], "big", signed=True)
        left = -1
        if have >= 4 and not self._seeking and self.least <= frame_size <= self._max_frame:
            left = 4 + frame_size - have - size
            head = bytes(self._buffer[:HEAD_BYTES])
            made.append(Frame(self.offset, head, frame_size, f"{size} bytes of it were lost"))
            self._buffer.clear()
            self.offset += have
        self._need = 4
        self._fresh = False
        self._pass_over = max(left, 0)
        if left < 0:
            self._seeking = self._seeking or f"{size} bytes were lost"
            self._give_up(made)
            if in_step:
                self._seeking = None
        self.offset += size
        return made

    def skip(self, head: bytes, size: int, reason: str) -> list[Item]:
        """A whole frame passed by of which only the head is known."""
        made: list[Item] = []
        if self._seeking:  # the next frame begins behind this one
            self._give_up(made)
            self._seeking = None
        if not self.lost:
            made.append(Frame(self.offset, head, size, reason))
        self._fresh = False
        self.offset += size + 4
        return made

    def end(self) -> list[Item]:
        """The stream is over: report what was passed over and led nowhere."""
        made: list[Item] = []
        if self._seeking:
            self._give_up(made)
        return made

    def _cut(self, data: bytes) -> Iterator[Item]:
        """Frames from `data`, which begins at a frame; the rest goes to the buffer."""
        pos, end = 0, len(data)
        self._need = 4
        while end - pos >= 4:
            size = int.from_bytes(data[pos : pos + 4], "big", signed=True)
            if size < self.least or size > self._max_frame:
                yield self._lose_framing(end - pos, f"length prefix says {size} bytes", None, size)
                return
            stop = pos + 4 + size
            if size > self._max_decoded:
                head = min(HEAD_BYTES, 4 + size)
                if end - pos < head:
                    self._need = head
                    break
                reason = f"over the limit of {self._max_decoded} bytes for decoding"
                frame = Frame(self.offset, data[pos : pos + head], size, reason)
                self._pass_over = max(stop - end, 0)
                self.offset += min(stop, end) - pos
                pos = min(stop, end)
                yield frame
                continue
            if stop > end:
                self._need = 4 + size
                break
            frame = Frame(self.offset, data if stop - pos == end else data[pos:stop], size)
            self.offset += stop - pos
            pos = stop
            yield frame
        if pos < end:
            self._buffer += data[pos:] if pos else data

    def _lose_framing(self, size: int, reason: str, named: OtherProtocol | None, says: int) -> NoFrame:
        """Give the direction up; `size` are the bytes that are here and belong to no frame."""
        lost = NoFrame(self.offset, reason, named, says)
        self.lost = True
        self.offset += size
        self._buffer.clear()
        return lost

    def _begin(self, made: list[Item]) -> bool:
        """The first bytes of a stream: a PROXY header may stand before the first frame, or it is no Kafka at all.

        No frame is whole before there are enough bytes to tell.
        """
        while (start := bytes(self._buffer[:4])) in (PROXY_V1[:4], PROXY_V2[:4]):
            header = proxy_header(bytes(self._buffer[:PROXY_BYTES]))
            if header is None:
                break
            if header.size > len(self._buffer):
                self._need = header.size
                return False
            made.append(Proxied(*header))
            del self._buffer[: header.size]
            self.offset += header.size
        self._need = 4
        if len(start) < 4:
            return False
        size = int.from_bytes(start, "big", signed=True)
        possible = self.least <= size <= self._max_frame
        if (named := detect_protocol(bytes(self._buffer[:START_BYTES]))) is not None:
            reason = "its first bytes are no frame" if possible else f"length prefix says {size} bytes"
            made.append(self._lose_framing(len(self._buffer), reason, named, size))
            return False
        if possible:
            # PostgreSQL sends eight bytes and waits: its lengths count themselves, Kafka's do not.
            self._need = 8 if len(self._buffer) < 8 else min(4 + size, START_BYTES)
        self._fresh = len(self._buffer) < self._need
        return not self._fresh

    def _seek(self, made: list[Item]) -> bool:
        """Look for a frame in the buffer; bytes in which none can begin are let go."""
        found = self._seeker.find(self._buffer, self.offset)
        self._let_go(max(len(self._buffer) - self._seeker.held, 0) if found is None else found)
        if found is None:
            return False
        self._report(made)
        self._seeking = None
        return True

    def _let_go(self, size: int) -> None:
        del self._buffer[:size]
        self.offset += size
        self._sought += size

    def _report(self, made: list[Item]) -> None:
        if self._sought:
            made.append(SkippedBytes(self.offset - self._sought, self._sought, self._seeking or ""))
            self._sought = 0

    def _give_up(self, made: list[Item]) -> None:
        """What was sought is not in the buffer, nor does it end in what comes next."""
        self._seeker.forget()
        self._let_go(len(self._buffer))
        self._report(made)
