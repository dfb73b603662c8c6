"""Where Kafka frames end in a stream of chunks, from nothing but their length prefixes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

_LENGTH = struct.Struct(">i")

#: A longer length prefix is none. Whatever begins with letters, or as TLS does, is over it.
MAX_FRAME_BYTES: Final = 256 * 1024 * 1024


class Boundaries:
    """One direction of a connection. Costs the same for a chunk of any size that lies inside one frame.

    Attributes:
        framed: False once a length prefix could not be one: from there on there are no boundaries.
        between: The next byte is the first of a frame, as far as is known: so every chunk's, without framing.
    """

    __slots__ = ("_left", "_prefix", "between", "framed")

    def __init__(self) -> None:
        self.framed = True
        self.between = True
        self._left = 0  # bytes of the frame in progress that are still to come, once its length is known
        self._prefix = b""  # the first bytes of a length prefix that a chunk cut

    def ends(self, chunk: bytes) -> Sequence[int]:
        """Take the next bytes; return the offsets in them at which a frame has come to its end."""
        size = len(chunk)
        if size < self._left:
            self._left -= size
            return ()
        if not self.framed:
            return ()
        ends: list[int] = []
        position = self._left - len(self._prefix)  # of the frame looked at, from the start of this chunk
        if position > 0:
            ends.append(position)
        while size - position >= 4:
            if position < 0:
                length = int.from_bytes(self._prefix + chunk[: position + 4], "big", signed=True)
            else:
                (length,) = _LENGTH.unpack_from(chunk, position)
            if not 0 <= length <= MAX_FRAME_BYTES:
                self.framed = False
                self.between = True
                self._left, self._prefix = 0, b""
                return ends
            position += 4 + length
            if position > size:
                self._left, self._prefix = position - size, b""
                self.between = False
                return ends
            ends.append(position)
        self._left = 0
        self._prefix = chunk[position:] if position >= 0 else self._prefix + chunk
        self.between = not self._prefix
        return ends
