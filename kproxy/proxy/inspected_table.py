"""InspectedTable: how far each connection was inspected, in memory that outlives the inspector's process."""

from __future__ import annotations

import mmap
from typing import Final

from kproxy.proxy.inspector_activity import InspectorActivity

#: Connections that can be open at the same time. Each needs two file descriptors, and no system allows more.
_SLOTS: Final = 1 << 20
_FIELDS: Final = 4  # bytes and frames of requests, then of responses
_CLOSED: Final = 2**64 - 1


class InspectedTable:
    """Memory shared by the relay and the inspectors that are forked later: a slot for each connection.

    The relay takes and frees slots. An inspector stores what it has inspected *and* written to the trace. After an
    inspector was killed, the relay reads how far it had got: the rest is a gap. There are no locks: a slot has one
    writer, and is read after that writer has ended. Only pages of used slots take memory. The first slot counts the
    connections without a slot, with their bytes and frames, as reported in gap lines of the trace; and the trace lines
    that were lost and are not yet reported in a gap line.

    Attributes:
        activity: What the current inspector is doing.
    """

    def __init__(self, slots: int = _SLOTS) -> None:
        self._memory = memoryview(mmap.mmap(-1, slots * _FIELDS * 8)).cast("Q")
        self.activity = InspectorActivity()
        self._slots = slots
        self._used = 1
        self._free: list[int] = []

    def take(self) -> int | None:
        """Reserve a slot and set it to zero; return None if all are in use."""
        if self._free:
            slot = self._free.pop()
        elif self._used < self._slots:
            slot, self._used = self._used, self._used + 1
        else:
            return None
        for field in range(_FIELDS):
            self._memory[slot * _FIELDS + field] = 0
        return slot

    def free(self, slot: int | None) -> None:
        """Release a slot that no inspector writes to any more."""
        if slot is not None:
            self._free.append(slot)

    def store(self, slot: int, direction: int, size: int, frames: int) -> None:
        """Store how many bytes and frames of one direction were inspected since the start of the connection."""
        start = slot * _FIELDS + 2 * direction
        self._memory[start], self._memory[start + 1] = size, frames

    def store_closed(self, slot: int) -> None:
        """Store that the end of the connection was inspected."""
        self._memory[slot * _FIELDS] = _CLOSED

    def add_missed(self, connections: int, size: int, frames: int) -> None:
        """Count connections that were never announced, once the trace has a gap line about them."""
        for field, count in enumerate((connections, size, frames)):
            self._memory[field] += count

    def missed(self) -> tuple[int, int, int]:
        """Return the sums of all `add_missed` calls: connections, bytes and frames."""
        return self._memory[0], self._memory[1], self._memory[2]

    def store_lost_lines(self, lines: int) -> None:
        """Store how many lines the trace lacks without having a gap line about them yet."""
        self._memory[3] = lines

    def lost_lines(self) -> int:
        """Return the number that `store_lost_lines` stored last."""
        return self._memory[3]

    def inspected(self, slot: int | None, direction: int) -> tuple[int, int]:
        """Return the bytes up to the end of a frame, and the whole frames, of one direction; (0, 0) without a slot."""
        if slot is None:
            return 0, 0
        start = slot * _FIELDS + 2 * direction
        return self._memory[start], self._memory[start + 1]

    def is_closed(self, slot: int | None) -> bool:
        """Return whether the end of the connection was inspected."""
        return slot is None or self._memory[slot * _FIELDS] == _CLOSED
