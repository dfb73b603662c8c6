"""A pipe that is read as it fills."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable
from typing import Any


class Piped(io.RawIOBase):
    """Gives what is there rather than wait for more; before it has to wait, `idle` is called.

    Args:
        file: The descriptor to read; it stays open.
        idle: What was read so far may be all for a while.
    """

    def __init__(self, file: int, idle: Callable[[], object]) -> None:
        self._file = file
        self._idle = idle

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not select.select([self._file], [], [], 0)[0]:
            self._idle()
        return os.readv(self._file, [buffer])
