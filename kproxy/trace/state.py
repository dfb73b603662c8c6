"""TraceState: whether the trace is written, in memory that the writer's process shares with the relay's."""

from __future__ import annotations

import mmap
import struct
from typing import Final

_LOST: Final = struct.Struct("=Q")
_REASON: Final = struct.Struct("=H")  # its length; the text follows
_MAX_REASON_BYTES: Final = 1000


class TraceState:
    """Written by the process that writes the trace, read by others. Create it before they are forked.

    It outlives the inspector, so that a trace with lost lines stays incomplete when another inspector continues it.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)

    @property
    def lost_lines(self) -> int:
        """Lines that are missing from the trace, since the relay began. Gap lines count them too."""
        (lines,) = _LOST.unpack_from(self._memory)
        return int(lines)

    def add_lost(self, lines: int) -> None:
        """Count lost lines."""
        _LOST.pack_into(self._memory, 0, self.lost_lines + lines)

    @property
    def failure(self) -> str | None:
        """Why the trace cannot be written at present; None if it can."""
        (length,) = _REASON.unpack_from(self._memory, _LOST.size)
        start = _LOST.size + _REASON.size
        return self._memory[start : start + length].decode(errors="replace") if length else None

    @failure.setter
    def failure(self, why: str | None) -> None:
        text = (why or "").encode(errors="replace")[:_MAX_REASON_BYTES]
        start = _LOST.size + _REASON.size
        self._memory[start : start + len(text)] = text
        _REASON.pack_into(self._memory, _LOST.size, len(text))
