"""TraceState: whether the trace can be written, in memory that the writing process shares with the relay."""

from __future__ import annotations

import mmap
import struct
from typing import Final

_LOST: Final = struct.Struct("=Q")
_REASON: Final = struct.Struct("=H")  # its length; the text follows
_MAX_REASON_BYTES: Final = 1000


class TraceState:
    """Set by the process that writes the trace, and read by others. It must be created before they are forked.

    It outlives the inspector, so that a trace with lost lines stays incomplete when a new inspector continues it.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)

    @property
    def lost_lines(self) -> int:
        """The number of lines missing from the trace since the relay started. Gap lines also count them."""
        (lines,) = _LOST.unpack_from(self._memory)
        return int(lines)

    def add_lost(self, lines: int) -> None:
        """Add to the number of lost lines."""
        _LOST.pack_into(self._memory, 0, self.lost_lines + lines)

    @property
    def failure(self) -> str | None:
        """Why the trace cannot be written at present, None if it can."""
        (length,) = _REASON.unpack_from(self._memory, _LOST.size)
        start = _LOST.size + _REASON.size
        return self._memory[start : start + length].decode(errors="replace") if length else None

    @failure.setter
    def failure(self, reason: str | None) -> None:
        text = (reason or "").encode(errors="replace")[:_MAX_REASON_BYTES]
        start = _LOST.size + _REASON.size
        self._memory[start : start + len(text)] = text
        _REASON.pack_into(self._memory, _LOST.size, len(text))
