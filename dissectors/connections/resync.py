"""Finds the next frame after bytes were lost or a capture began mid-stream."""

from __future__ import annotations

import heapq
from collections.abc import Callable

#: A candidate frame is decoded to check it once it is complete. A longer one is accepted without decoding after so many
#: bytes, if no other frame was found by then.
MAX_CHECKED_BYTES = 16 * 1024
#: The smallest frame: a length prefix and a correlation id.
MIN_BYTES = 8


class FrameFinder:
    """Finds, of all positions where a frame may begin, the first whose frame is complete and decodes.

    The result does not depend on the chunks of the stream, and a number in a payload that looks like the length of a
    long frame does not delay it.

    Args:
        head_size: Number of bytes that `is_plausible` needs.
        is_plausible: Whether a frame may begin at that position of a buffer, as far as it was received.
        is_readable: Whether the bytes of a whole frame decode.
        max_frame_bytes: The largest valid length prefix.
    """

    def __init__(
        self,
        head_size: int,
        is_plausible: Callable[[bytearray, int], bool],
        is_readable: Callable[[bytes], bool],
        max_frame_bytes: int,
    ) -> None:
        self._head = head_size
        self._plausible = is_plausible
        self._readable = is_readable
        self._longest = 4 + max_frame_bytes
        self._next = 0  # stream position up to which candidates were collected
        self._candidates: list[tuple[int, int]] = []  # heap: (position for the check, position of its first byte)

    def find(self, buffer: bytearray, offset: int) -> int | None:
        """The index in `buffer` of the next frame. `offset` is the stream position of the buffer's first byte.

        None if it is not known yet; the caller must keep the last `held` bytes for the next call.
        """
        end = offset + len(buffer)
        highest = self._longest >> 24
        for index in range(max(self._next - offset, 0), len(buffer) - self._head + 1):
            if buffer[index] > highest or not MIN_BYTES <= (extent := _extent(buffer, index)) <= self._longest:
                continue
            if self._plausible(buffer, index):
                start = offset + index
                heapq.heappush(self._candidates, (start + min(extent, MAX_CHECKED_BYTES), start))
        self._next = max(self._next, end - self._head + 1)
        while self._candidates and self._candidates[0][0] <= end:
            index = heapq.heappop(self._candidates)[1] - offset
            if self._is_frame(buffer, index):
                self.forget()
                return index
        return None

    def _is_frame(self, buffer: bytearray, index: int) -> bool:
        extent = _extent(buffer, index)
        if extent > MAX_CHECKED_BYTES:
            return self._plausible(buffer, index)  # more of the client id has arrived by now
        return self._readable(bytes(buffer[index : index + extent]))

    @property
    def held(self) -> int:
        """The number of last bytes that may belong to a frame yet to be found."""
        return MAX_CHECKED_BYTES if self._candidates else self._head - 1

    def forget(self) -> None:
        """Drop all candidates: the next bytes do not continue the previous ones."""
        self._candidates.clear()


def _extent(buffer: bytearray, index: int) -> int:
    return 4 + int.from_bytes(buffer[index : index + 4], "big")
