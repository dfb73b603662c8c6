"""How far the inspector's process has come with each connection, in memory that outlives it."""

from __future__ import annotations

import mmap
from typing import Final

#: Connections that can be open at the same time; one has two file descriptors here, and no system allows more.
_SLOTS: Final = 1 << 20
_FIELDS: Final = 4  # bytes and frames of requests, then of responses
_CLOSED: Final = 2**64 - 1


class InspectedTable:
    """Memory shared by the relay and the inspectors that are forked later: a slot for each connection.

    The relay takes slots and frees them; an inspector stores what it has inspected *and* written to the trace. When
    an inspector was killed, the relay reads there what it does not have to count as a gap. Nothing is locked: a slot
    has one writer, and is read when that is dead. Only pages of slots in use take memory. The first slot is for
    connections that had none: how many, with how many bytes and frames, the trace mentions in sum.
    """

    def __init__(self, slots: int = _SLOTS) -> None:
        self._memory = memoryview(mmap.mmap(-1, slots * _FIELDS * 8)).cast("Q")
        self._slots = slots
        self._begun = 1
        self._free: list[int] = []

    def take(self) -> int | None:
        """A slot in which nothing is inspected yet; None if all are in use."""
        if self._free:
            slot = self._free.pop()
        elif self._begun < self._slots:
            slot, self._begun = self._begun, self._begun + 1
        else:
            return None
        for field in range(_FIELDS):
            self._memory[slot * _FIELDS + field] = 0
        return slot

    def free(self, slot: int | None) -> None:
        """No inspector will store anything there any more."""
        if slot is not None:
            self._free.append(slot)

    def store(self, slot: int, direction: int, size: int, frames: int) -> None:
        """One direction was inspected up to there, from the start of the connection."""
        start = slot * _FIELDS + 2 * direction
        self._memory[start], self._memory[start + 1] = size, frames

    def store_closed(self, slot: int) -> None:
        """The end of the connection was inspected."""
        self._memory[slot * _FIELDS] = _CLOSED

    def add_missed(self, connections: int, size: int, frames: int) -> None:
        """So many connections that came and went unseen are in the trace."""
        for field, more in enumerate((connections, size, frames)):
            self._memory[field] += more

    def missed(self) -> tuple[int, int, int]:
        """The sums of all `add_missed`."""
        return self._memory[0], self._memory[1], self._memory[2]

    def inspected(self, slot: int | None, direction: int) -> tuple[int, int]:
        """Bytes up to the end of a frame, and whole frames, of one direction; of no slot, none."""
        if slot is None:
            return 0, 0
        start = slot * _FIELDS + 2 * direction
        return self._memory[start], self._memory[start + 1]

    def is_closed(self, slot: int | None) -> bool:
        """Whether the end of the connection was inspected."""
        return slot is None or self._memory[slot * _FIELDS] == _CLOSED
