"""Finds the next frame in a stream that was entered in the middle."""

from __future__ import annotations

import heapq
from collections.abc import Callable

#: A frame that may begin somewhere is waited for and read, unless it is longer than this: it is believed if nothing
#: else was found in as many bytes.
MAX_JUDGED_BYTES = 16 * 1024
#: A length and a correlation id.
LEAST_BYTES = 8


class FrameFinder:
    """Of all places where a frame may begin, finds the one whose frame is the first to be whole and reads well.

    So it does not matter how the stream is cut, and a number in some payload that looks like the length of a long frame
    holds nothing up.

    Args:
        head: Bytes that `plausible` looks at.
        plausible: Whether a frame may begin at that position of a buffer, as far as it is there.
        readable: Whether a whole frame can be one.
        max_frame_bytes: A longer length prefix cannot be one.
    """

    def __init__(
        self,
        head: int,
        plausible: Callable[[bytearray, int], bool],
        readable: Callable[[bytes], bool],
        max_frame_bytes: int,
    ) -> None:
        self._head = head
        self._plausible = plausible
        self._readable = readable
        self._longest = 4 + max_frame_bytes
        self._next = 0  # where in the stream it has not looked yet
        self._candidates: list[tuple[int, int]] = []  # heap: where it can be judged, where it begins

    def find(self, buffer: bytearray, offset: int) -> int | None:
        """Where in `buffer`, whose first byte stands at `offset` in the stream, the next frame begins.

        None if that is not known yet: of what was looked through, the last `held` bytes have to be there next time.
        """
        end = offset + len(buffer)
        highest = self._longest >> 24
        for at in range(max(self._next - offset, 0), len(buffer) - self._head + 1):
            if buffer[at] > highest or not LEAST_BYTES <= (extent := _extent(buffer, at)) <= self._longest:
                continue
            if self._plausible(buffer, at):
                begins = offset + at
                heapq.heappush(self._candidates, (begins + min(extent, MAX_JUDGED_BYTES), begins))
        self._next = max(self._next, end - self._head + 1)
        while self._candidates and self._candidates[0][0] <= end:
            at = heapq.heappop(self._candidates)[1] - offset
            if self._is_frame(buffer, at):
                self.forget()
                return at
        return None

    def _is_frame(self, buffer: bytearray, at: int) -> bool:
        extent = _extent(buffer, at)
        if extent > MAX_JUDGED_BYTES:
            return self._plausible(buffer, at)  # which sees more of it now
        return self._readable(bytes(buffer[at : at + extent]))

    @property
    def held(self) -> int:
        """How many of the last bytes may belong to a frame that is to be found."""
        return MAX_JUDGED_BYTES if self._candidates else self._head - 1

    def forget(self) -> None:
        """What comes next does not follow what was seen so far."""
        self._candidates.clear()


def _extent(buffer: bytearray, at: int) -> int:
    return 4 + int.from_bytes(buffer[at : at + 4], "big")
