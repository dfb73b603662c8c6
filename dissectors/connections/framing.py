"""Split one direction of a connection into frames, and resynchronise after bytes were lost."""

# Rule 1: items depend only on the bytes, never on how they were cut into chunks (except `NotKafka.start`, which is only
# shown). A decision waits until the buffer has all bytes on which it depends.
#
# Rule 2: `offset` plus the length of the buffer is the number of bytes of the stream so far, including lost ones. Each
# byte is in exactly one item: a frame, skipped bytes, or the stream after `NotKafka`.
#
# Rule 3: between calls, the buffer holds at most one incomplete frame, or only the head of a frame that is longer than
# `max_decoded_bytes`.

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from msgspec import Struct

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

#: Only the head of larger frames is kept; they are still paired.
MAX_DECODED_BYTES = 32 * 1024 * 1024
#: The number of bytes kept of a frame that is not decoded, enough for its header.
HEAD_BYTES = 512
#: The reason for skipped bytes at the start of a stream.
MIDSTREAM = "the capture starts in the middle of the stream"


class Frame(Struct):
    """A frame with its length prefix; if `damaged` gives a reason, `data` is shorter than `size` + 4."""

    offset: int
    data: bytes
    size: int
    damaged: str | None = None


class SkippedBytes(NamedTuple):
    """Bytes that belong to no complete frame."""

    offset: int
    size: int
    reason: str


#: The largest error of a length prefix that is searched for: the size of a header, or of the prefix itself.
MAX_LENGTH_ERROR = 16


class NotKafka(NamedTuple):
    """No frame begins here. `size` is the value of the length prefix, `start` are the first bytes."""

    offset: int
    reason: str
    other_protocol: OtherProtocol | None
    size: int
    start: bytes = b""


class ProxyHeaderSkipped(NamedTuple):
    """A PROXY protocol header was skipped."""

    version: int
    size: int


Item: TypeAlias = Frame | SkippedBytes | NotKafka | ProxyHeaderSkipped


class Framer:
    """One direction of a connection: takes bytes in chunks of any size, and returns frames that do not depend on them.

    Args:
        min_size: The smallest valid length prefix.
        seeker: Finds the next frame after lost bytes, and at the start if `seeking`.
        max_frame_bytes: The largest valid length prefix.
        max_decoded_bytes: Only the head of a longer frame is kept.
        seeking: Whether the stream begins in the middle.
    """

    def __init__(
        self,
        min_size: int,
        seeker: FrameFinder,
        max_frame_bytes: int,
        max_decoded_bytes: int,
        *,
        seeking: bool,
    ) -> None:
        self.min_size = min_size
        self.lost = False
        self.offset = 0  # position of the buffer's first byte in the stream
        self._seeker = seeker
        self._max_frame = max_frame_bytes
        self._max_decoded = max_decoded_bytes
        self._max_whole = min(max_frame_bytes, max_decoded_bytes)
        self._buffer = bytearray()
        self._needed_size = 4  # the buffer size at which the next decision is possible
        self._skip_size = 0  # the number of following bytes that belong to a frame already reported
        self._seeking = MIDSTREAM if seeking else None  # the reason for looking for a frame
        self._dropped = 0  # bytes dropped while looking for a frame
        self._is_start = not seeking  # whether no frame has begun yet

    def limit(self, max_decoded_bytes: int) -> None:
        """Change `max_decoded_bytes`, also for the frame being received."""
        self._max_decoded = max_decoded_bytes
        self._max_whole = min(self._max_frame, max_decoded_bytes)

    @property
    def received(self) -> int:
        """The number of bytes of the stream so far, including lost bytes."""
        return self.offset + len(self._buffer)

    @property
    def pending(self) -> int:
        """The number of buffered bytes of an incomplete frame."""
        return 0 if self._seeking else len(self._buffer)

    @property
    def is_within_frame(self) -> bool:
        """Whether the bytes so far end inside a frame."""
        return len(self._buffer) > 0 and not self._seeking

    @property
    def pending_size(self) -> int:
        """The total size of the incomplete frame, 0 while its length prefix is incomplete."""
        return 4 + int.from_bytes(self._buffer[:4], "big", signed=True) if self.pending >= 4 else 0

    @property
    def nearly_whole(self) -> bytes | None:
        """An incomplete frame of which only a few bytes are missing, if any."""
        missing = self.pending_size - self.pending
        return bytes(self._buffer) if self.pending >= 8 and 0 < missing <= MAX_LENGTH_ERROR else None

    @property
    def reported(self) -> int:
        """The offset up to which the stream was reported. A long frame is reported before the rest of it is skipped."""
        return self.offset + self._skip_size - self._dropped

    def resume(self, offset: int, *, at_frame: bool) -> None:
        """Continue at `offset` of the stream; `at_frame` tells whether a frame begins there."""
        self.offset = offset
        if at_frame:
            self._seeking = None
            self._is_start = offset == 0

    def push(self, data: bytes) -> Iterable[Item]:
        """Process the next bytes and return the items that they complete.

        Process each item before taking the next: a frame may change the `min_size` of the next. Iterate to the end.
        """
        if self.lost:
            self.offset += len(data)
            return []
        if self._skip_size:
            skipped = min(self._skip_size, len(data))
            self._skip_size -= skipped
            self.offset += skipped
            data = data[skipped:]
        if not self._buffer and not self._is_start and not self._seeking:
            size = len(data) - 4
            if self.min_size <= size <= self._max_whole and int.from_bytes(data[:4], "big") == size:
                frame = Frame(self.offset, data, size)  # the usual case: the chunk is one frame
                self.offset += size + 4
                self._needed_size = 4
                return (frame,)
            return self._cut(data)
        self._buffer += data
        if len(self._buffer) < self._needed_size:
            return []
        items: list[Item] = []
        if self._seeking and not self._seek(items):
            return items
        if self._is_start and not self._begin(items):
            return items
        buffered = bytes(self._buffer)
        self._buffer.clear()
        return itertools.chain(items, self._cut(buffered))

    def lose(self, size: int, *, at_frame: bool = False) -> list[Item]:
        """Account for `size` lost bytes; a frame that they truncate is returned as damaged.

        `at_frame` tells whether a frame is known to begin after them.
        """
        if self.lost or self._skip_size >= size:
            self._skip_size = max(self._skip_size - size, 0)
            self.offset += size
            return []
        items: list[Item] = []
        received, frame_size = len(self._buffer), int.from_bytes(self._buffer[:4], "big", signed=True)
        remaining = -1
        if received >= 4 and not self._seeking and self.min_size <= frame_size <= self._max_frame:
            remaining = 4 + frame_size - received - size
            head = bytes(self._buffer[:HEAD_BYTES])
            items.append(Frame(self.offset, head, frame_size, f"{size} bytes of it were lost"))
            self._buffer.clear()
            self.offset += received
        self._needed_size = 4
        self._is_start = False
        self._skip_size = max(remaining, 0)
        if remaining < 0:
            self._seeking = self._seeking or f"{size} bytes were lost"
            self._give_up(items)
            if at_frame:
                self._seeking = None
        self.offset += size
        return items

    def skip(self, head: bytes, size: int, reason: str) -> list[Item]:
        """Report a frame of which only the head was captured."""
        items: list[Item] = []
        if self._seeking:  # the next frame begins after this one
            self._give_up(items)
            self._seeking = None
        if not self.lost:
            items.append(Frame(self.offset, head, size, reason))
        self._is_start = False
        self.offset += size + 4
        return items

    def end(self) -> list[Item]:
        """End the stream: report the bytes skipped while looking for a frame."""
        items: list[Item] = []
        if self._seeking:
            self._give_up(items)
        return items

    def _cut(self, data: bytes) -> Iterator[Item]:
        """Yield the frames in `data`, which begins with a frame; buffer the rest."""
        pos, end = 0, len(data)
        self._needed_size = 4
        while end - pos >= 4:
            size = int.from_bytes(data[pos : pos + 4], "big", signed=True)
            if size < self.min_size or size > self._max_frame:
                start = bytes(data[pos : pos + MAX_LENGTH_ERROR])
                yield self._lose_framing(end - pos, f"length prefix says {size} bytes", None, size)._replace(
                    start=start
                )
                return
            frame_end = pos + 4 + size
            if size > self._max_decoded:
                head_size = min(HEAD_BYTES, 4 + size)
                if end - pos < head_size:
                    self._needed_size = head_size
                    break
                reason = f"over the limit of {self._max_decoded} bytes for decoding"
                frame = Frame(self.offset, data[pos : pos + head_size], size, reason)
                self._skip_size = max(frame_end - end, 0)
                self.offset += min(frame_end, end) - pos
                pos = min(frame_end, end)
                yield frame
                continue
            if frame_end > end:
                self._needed_size = 4 + size
                break
            frame = Frame(self.offset, data if frame_end - pos == end else data[pos:frame_end], size)
            self.offset += frame_end - pos
            pos = frame_end
            yield frame
        if pos < end:
            self._buffer += data[pos:] if pos else data

    def _lose_framing(
        self, size: int, reason: str, other_protocol: OtherProtocol | None, prefix_value: int
    ) -> NotKafka:
        """Stop inspecting this direction.

        `size` is the number of bytes received after the last frame, `prefix_value` the value of the length prefix.
        """
        lost = NotKafka(self.offset, reason, other_protocol, prefix_value)
        self.lost = True
        self.offset += size
        self._buffer.clear()
        return lost

    def _begin(self, items: list[Item]) -> bool:
        """Check the first bytes of a stream for PROXY headers and other protocols.

        Return False while there are too few bytes, or if the protocol is not Kafka.
        """
        while (start := bytes(self._buffer[:4])) in (PROXY_V1[:4], PROXY_V2[:4]):
            header = proxy_header(bytes(self._buffer[:PROXY_BYTES]))
            if header is None:
                break
            if header.size > len(self._buffer):
                self._needed_size = header.size
                return False
            items.append(ProxyHeaderSkipped(*header))
            del self._buffer[: header.size]
            self.offset += header.size
        self._needed_size = 4
        if len(start) < 4:
            return False
        size = int.from_bytes(start, "big", signed=True)
        is_possible_size = self.min_size <= size <= self._max_frame
        if (other_protocol := detect_protocol(bytes(self._buffer[:START_BYTES]))) is not None:
            reason = "its first bytes are no frame" if is_possible_size else f"length prefix says {size} bytes"
            items.append(self._lose_framing(len(self._buffer), reason, other_protocol, size))
            return False
        if is_possible_size:
            # PostgreSQL clients send eight bytes and wait; their length prefix includes itself.
            self._needed_size = 8 if len(self._buffer) < 8 else min(4 + size, START_BYTES)
        self._is_start = len(self._buffer) < self._needed_size
        return not self._is_start

    def _seek(self, items: list[Item]) -> bool:
        """Look for a frame in the buffer and return whether there is one; drop bytes in which no frame can begin."""
        match = self._seeker.find(self._buffer, self.offset)
        self._drop(max(len(self._buffer) - self._seeker.held, 0) if match is None else match)
        if match is None:
            return False
        self._report_dropped(items)
        self._seeking = None
        return True

    def _drop(self, size: int) -> None:
        del self._buffer[:size]
        self.offset += size
        self._dropped += size

    def _report_dropped(self, items: list[Item]) -> None:
        if self._dropped:
            items.append(SkippedBytes(self.offset - self._dropped, self._dropped, self._seeking or ""))
            self._dropped = 0

    def _give_up(self, items: list[Item]) -> None:
        """Drop the buffer: it contains no frame, and the following bytes do not continue it."""
        self._seeker.forget()
        self._drop(len(self._buffer))
        self._report_dropped(items)
