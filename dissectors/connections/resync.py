"""Find the next frame after lost bytes, or when a capture begins mid-stream."""

from __future__ import annotations

import heapq
from collections.abc import Callable

#: A candidate frame of at most this size is decoded once it is complete, to check it. A longer one is accepted without
#: decoding after this many bytes, if no other frame was found by then.
MAX_CHECKED_BYTES = 16 * 1024
#: The smallest frame: a length prefix and a correlation id.
MIN_BYTES = 8


class FrameFinder:
    """Finds, among all positions where a frame may begin, the first with a complete frame that decodes.

    The result does not depend on the chunks of the stream. A number in a payload that looks like the length of a long
    frame does not delay it.

    Args:
        head_size: The number of bytes that `is_plausible` needs.
        is_plausible: Tells whether a frame may begin at an index of a buffer, judged by the bytes received.
        is_readable: Tells whether the bytes of a whole frame decode.
        max_frame_bytes: The largest valid length prefix.
    """

    def __init__(
        self,
        head_size: int,
        is_plausible: Callable[[bytearray, int], bool],
        is_readable: Callable[[bytes], bool],
        max_frame_bytes: int,
    ) -> None:
        self._head_size = head_size
        self._is_plausible = is_plausible
        self._is_readable = is_readable
        self._max_size = 4 + max_frame_bytes
        self._searched_end = 0  # stream position up to which candidates were collected
        self._candidates: list[tuple[int, int]] = []  # heap: (position for the check, position of its first byte)

    def find(self, buffer: bytearray, offset: int) -> int | None:
        """Return the index in `buffer` of the next frame. `offset` is the stream position of the buffer's first byte.

        Return None if it is not known yet; the caller must then keep the last `held` bytes for the next call.
        """
        end = offset + len(buffer)
        max_first_byte = self._max_size >> 24
        for index in range(max(self._searched_end - offset, 0), len(buffer) - self._head_size + 1):
            if (
                buffer[index] > max_first_byte
                or not MIN_BYTES <= (frame_size := _frame_size(buffer, index)) <= self._max_size
            ):
                continue
            if self._is_plausible(buffer, index):
                start = offset + index
                heapq.heappush(self._candidates, (start + min(frame_size, MAX_CHECKED_BYTES), start))
        self._searched_end = max(self._searched_end, end - self._head_size + 1)
        while self._candidates and self._candidates[0][0] <= end:
            index = heapq.heappop(self._candidates)[1] - offset
            if self._is_frame(buffer, index):
                self.forget()
                return index
        return None

    def _is_frame(self, buffer: bytearray, index: int) -> bool:
        frame_size = _frame_size(buffer, index)
        if frame_size > MAX_CHECKED_BYTES:
            return self._is_plausible(buffer, index)  # by now, more of the client id has arrived
        return self._is_readable(bytes(buffer[index : index + frame_size]))

    @property
    def held(self) -> int:
        """The number of bytes at the end that may belong to a frame not found yet."""
        return MAX_CHECKED_BYTES if self._candidates else self._head_size - 1

    def forget(self) -> None:
        """Drop all candidates, because the next bytes do not continue the previous ones."""
        self._candidates.clear()


def _frame_size(buffer: bytearray, index: int) -> int:
    return 4 + int.from_bytes(buffer[index : index + 4], "big")
