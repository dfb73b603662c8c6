"""When to restart a process that has ended early."""

from __future__ import annotations

from collections import deque
from typing import Final

#: There are at most this many restarts within this many seconds.
MAX_RESTARTS: Final = 5
WINDOW_S: Final = 60.0


class RestartPolicy:
    """Decides when to restart a process that has failed; times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._failures: deque[float] = deque()

    def record_failure(self, now: float) -> float | None:
        """Record a failure of the process; return the seconds until its restart, or None for no restart.

        The first delay is 1 s, each further one twice the previous. Workers of an inspector are restarted immediately.
        """
        while self._failures and now - self._failures[0] >= WINDOW_S:
            self._failures.popleft()
        if len(self._failures) >= MAX_RESTARTS:
            return None
        self._failures.append(now)
        return float(1 << (len(self._failures) - 1))
