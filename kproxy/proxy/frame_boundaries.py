"""Finds the ends of Kafka frames in a stream of chunks by their length prefixes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from dissectors.wire.limits import MAX_FRAME_BYTES

_LENGTH = struct.Struct(">i")


class FrameBoundaries:
    """The frames of one direction of a connection. A chunk within one frame takes the same time whatever its size.

    Attributes:
        framed: False after an invalid length prefix: from then on, no boundaries are known.
        at_boundary: Whether the next byte is the first of a frame; always true without framing.
    """

    __slots__ = ("_left", "_prefix", "at_boundary", "framed")

    def __init__(self) -> None:
        self.framed = True
        self.at_boundary = True
        self._left = 0  # remaining bytes of the frame in progress, if its length is known
        self._prefix = b""  # the first bytes of an incomplete length prefix

    def ends(self, chunk: bytes) -> Sequence[int]:
        """Process the next bytes; return the offsets within them at which frames end."""
        size = len(chunk)
        if (
            self.at_boundary
            and self.framed
            and 4 <= size <= MAX_FRAME_BYTES
            and _LENGTH.unpack_from(chunk)[0] == size - 4
        ):
            return (size,)  # one whole frame, like half of all chunks
        if size < self._left:
            self._left -= size
            return ()
        if not self.framed:
            return ()
        ends: list[int] = []
        position = self._left - len(self._prefix)  # start of the next frame, relative to the start of this chunk
        if position > 0:
            ends.append(position)
        while size - position >= 4:
            if position < 0:
                length = int.from_bytes(self._prefix + chunk[: position + 4], "big", signed=True)
            else:
                (length,) = _LENGTH.unpack_from(chunk, position)
            if not 0 <= length <= MAX_FRAME_BYTES:
                self.framed = False
                self.at_boundary = True
                self._left, self._prefix = 0, b""
                return ends
            position += 4 + length
            if position > size:
                self._left, self._prefix = position - size, b""
                self.at_boundary = False
                return ends
            ends.append(position)
        self._left = 0
        self._prefix = chunk[position:] if position >= 0 else self._prefix + chunk
        self.at_boundary = not self._prefix
        return ends
