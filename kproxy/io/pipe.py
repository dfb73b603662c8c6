"""PipeReader: reads a pipe and reports when it is empty."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable
from typing import Any


class PipeReader(io.RawIOBase):
    """Reads the available bytes, and calls `idle` before it blocks.

    Args:
        file: The file descriptor to read. It is not closed.
        idle: Called when no more bytes are available for now.
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
