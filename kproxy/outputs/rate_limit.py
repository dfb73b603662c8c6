"""Limits output on a terminal, so that it does not slow down the inspector: excess lines are counted, not shown."""

from __future__ import annotations

import time
from typing import TextIO

from kproxy.outputs.stderr import print_message

#: Rows per second that a terminal gets, and the size of a burst.
RATE = 400
BURST = 2000


class RateLimit:
    """A token bucket for lines. Only terminals are throttled; files and pipes get all lines."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._active = file.isatty()
        self._tokens = float(BURST)
        self._refilled_at = time.monotonic()
        self._hidden = 0

    def allows(self) -> bool:
        """Return whether to show the next line. If so, first report how many lines were not shown, if any."""
        if not self._active:
            return True
        now = time.monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._refilled_at) * RATE)
        self._refilled_at = now
        if self._tokens < (BURST / 4 if self._hidden else 1):
            self._hidden += 1
            return False
        self.close()
        self._tokens -= 1
        return True

    def close(self) -> None:
        """Report how many lines were not shown, if any."""
        if self._hidden:
            print_message(f"... {self._hidden} lines not shown (they are in the trace)")
            self._hidden = 0
