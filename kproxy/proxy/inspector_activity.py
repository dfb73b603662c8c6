"""What an inspector is at, in memory shared with the relay: so that the relay notices one that does not respond."""

from __future__ import annotations

import mmap
from typing import Final

_PID, _TURNS, _INSPECTED, _CONNECTION = range(4)
#: For the API of the frame at which each process of the inspection is: a connection's row follows from its number.
_ROWS: Final = 256
_FIRST_ROW: Final = 4


class InspectorActivity:
    """Written by the inspector and its workers, read by the relay. There are no locks: each value is one word.

    Counts are those of the current inspector.
    """

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, (_FIRST_ROW + 2 * _ROWS) * 8)).cast("Q")
        self._count = 0

    def begin(self, pid: int) -> None:
        """An inspector begins with this process id, which is also that of its process group."""
        self._memory[_TURNS] = self._memory[_INSPECTED] = self._memory[_CONNECTION] = self._count = 0
        self._memory[_PID] = pid

    def turn(self) -> None:
        """The inspector's loop made a turn, which it does at least once a second."""
        self._memory[_TURNS] += 1

    def reach(self, number: int) -> None:
        """The inspector is at a message of this connection; 0 for a message of none."""
        self._memory[_CONNECTION] = number

    def begin_message(self, number: int) -> None:
        """This process, which may be a worker, begins to inspect a message of this connection."""
        self._memory[_FIRST_ROW + 2 * (number % _ROWS)] = 0

    def begin_frame(self, number: int, api_key: int) -> None:
        """This process begins to judge a frame of this connection."""
        row = _FIRST_ROW + 2 * (number % _ROWS)
        self._memory[row], self._memory[row + 1] = number, api_key & 0xFFFF

    def reach_frame(self, number: int, api_key: int) -> None:
        """The inspector, in this process, begins to judge a frame of this connection."""
        self._memory[_CONNECTION] = number
        self.begin_frame(number, api_key)

    def finish_message(self, count: int = 1) -> None:
        """The lines of one more message of the tap were written. A pool corrects the count when it loses a worker."""
        self._count += count
        self._memory[_INSPECTED] = max(self._count, 0)

    @property
    def pid(self) -> int:
        """The inspector's process; 0 if none was started."""
        return self._memory[_PID]

    @property
    def turns(self) -> int:
        """Turns of the inspector's loop."""
        return self._memory[_TURNS]

    @property
    def inspected(self) -> int:
        """Messages that were inspected."""
        return self._memory[_INSPECTED]

    @property
    def connection(self) -> int:
        """The connection of the message at which the inspector is; 0 if there is none."""
        return self._memory[_CONNECTION]

    @property
    def api_key(self) -> int | None:
        """The API of the frame at which the inspector is; None if that is not known (yet)."""
        number = self.connection
        row = _FIRST_ROW + 2 * (number % _ROWS)
        return self._memory[row + 1] if number and self._memory[row] == number else None
