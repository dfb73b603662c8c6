"""Keeps a terminal from holding up the inspector: what comes faster than anyone reads is counted, not shown."""

from __future__ import annotations

import time
from typing import TextIO

from kproxy.outputs.stderr import say

#: Rows a second that a terminal is given, and how many at once.
RATE = 400
BURST = 2000


class RateLimit:
    """Says whether there is time to show a line. Only terminals are throttled: a file or a pipe gets everything."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._active = file.isatty()
        self._tokens = float(BURST)
        self._at = time.monotonic()
        self._hidden = 0

    def allows(self) -> bool:
        """Whether the next line may be shown; says first how many were not."""
        if not self._active:
            return True
        now = time.monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._at) * RATE)
        self._at = now
        if self._tokens < (BURST / 4 if self._hidden else 1):
            self._hidden += 1
            return False
        self.close()
        self._tokens -= 1
        return True

    def close(self) -> None:
        """Say how many lines were not shown, if any."""
        if self._hidden:
            say(f"... {self._hidden} lines not shown (they are in the trace)")
            self._hidden = 0
