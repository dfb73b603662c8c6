"""What an inspector is doing, in memory shared with the relay, which can thus notice that it does not respond."""

from __future__ import annotations

import mmap
from typing import Final

_PID, _TURNS, _INSPECTED, _CONNECTION, _MUST_LEAVE, _HAS_LEFT = range(6)
#: Rows for the frame that each inspecting process works on: the row follows from the number of its connection.
_ROWS: Final = 256
_FIRST_ROW: Final = 6


class InspectorActivity:
    """Written by the inspector and its workers, read by the relay. There are no locks: each value is one word.

    Counts are those of the current inspector.

    Attributes:
        must_leave: The relay sets it if the inspector must end now, with its summary, and leave the rest uninspected.
        has_left: Whether an inspector has ended in this way.
    """

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, (_FIRST_ROW + 2 * _ROWS) * 8)).cast("Q")
        self._count = 0

    def begin(self, pid: int) -> None:
        """Reset everything for a new inspector; its process id is also that of its process group."""
        self._memory[_TURNS] = self._memory[_INSPECTED] = self._memory[_CONNECTION] = self._count = 0
        self._memory[_PID] = pid

    def count_turn(self) -> None:
        """Count a turn of the inspector's loop, which makes one at least once a second."""
        self._memory[_TURNS] += 1

    def record_connection(self, number: int) -> None:
        """Note that the inspector has reached a message of this connection; 0 for a message of no connection."""
        self._memory[_CONNECTION] = number

    def begin_message(self, number: int) -> None:
        """Note that this process, which may be a worker, begins to inspect a message of this connection."""
        self._memory[_FIRST_ROW + 2 * (number % _ROWS)] = 0

    def begin_frame(self, number: int, api_key: int) -> None:
        """Note that this process, which may be a worker, begins to judge a frame of this connection."""
        row = _FIRST_ROW + 2 * (number % _ROWS)
        self._memory[row], self._memory[row + 1] = number, api_key & 0xFFFF

    def reach_frame(self, number: int, api_key: int) -> None:
        """Note that the inspector, running in this process, begins to judge a frame of this connection."""
        self._memory[_CONNECTION] = number
        self.begin_frame(number, api_key)

    def finish_message(self, count: int = 1) -> None:
        """Count tap messages whose lines were written. A pool corrects the count when it loses a worker."""
        self._count += count
        self._memory[_INSPECTED] = max(self._count, 0)

    @property
    def must_leave(self) -> bool:
        return bool(self._memory[_MUST_LEAVE])

    @must_leave.setter
    def must_leave(self, value: bool) -> None:
        self._memory[_MUST_LEAVE] = value

    @property
    def has_left(self) -> bool:
        return bool(self._memory[_HAS_LEFT])

    @has_left.setter
    def has_left(self, value: bool) -> None:
        self._memory[_HAS_LEFT] = value

    @property
    def pid(self) -> int:
        """The process id of the inspector; 0 if none was started."""
        return self._memory[_PID]

    @property
    def turns(self) -> int:
        """The turns that the inspector's loop has made."""
        return self._memory[_TURNS]

    @property
    def inspected(self) -> int:
        """The number of messages that were inspected."""
        return self._memory[_INSPECTED]

    @property
    def connection(self) -> int:
        """The connection whose message the inspector works on; 0 if there is none."""
        return self._memory[_CONNECTION]

    @property
    def api_key(self) -> int | None:
        """The API of the frame that the inspector works on; None if it is not known (yet)."""
        number = self.connection
        row = _FIRST_ROW + 2 * (number % _ROWS)
        return self._memory[row + 1] if number and self._memory[row] == number else None
