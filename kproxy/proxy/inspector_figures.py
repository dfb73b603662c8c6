"""Figures that the inspector's process sends back to the relay: text with its length in front, about once a second."""

from __future__ import annotations

import socket
import struct
from typing import Final

#: A longer text is a fault of the inspector.
MAX_BYTES: Final = 4 * 1024 * 1024
_LENGTH: Final = struct.Struct(">I")


class FiguresReader:
    """The relay's end: keeps the last whole text.

    Attributes:
        text: Empty until an inspector has sent one.
        inspectors: How many inspectors there have been.
    """

    def __init__(self) -> None:
        self.text = b""
        self.inspectors = 0
        self._buffer = bytearray()
        self._broken = False

    def begin(self) -> None:
        """An inspector begins, perhaps after another one."""
        self.inspectors += 1
        self.text = b""
        self._buffer.clear()
        self._broken = False

    def receive(self, data: bytes) -> None:
        """Take the next bytes; never raises."""
        if self._broken:
            return
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer)
            if size > MAX_BYTES:
                self._broken = True
                self._buffer.clear()
                return
            end = _LENGTH.size + size
            if len(self._buffer) < end:
                return
            self.text = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]


class FiguresWriter:
    """The inspector's end. It never waits: a text is left out while the last one is on its way.

    Args:
        sock: Not blocking; belongs to the caller.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._rest = memoryview(b"")

    def is_ready(self) -> bool:
        """Send what is left; whether there is room for another text."""
        while self._rest:
            try:
                sent = self._socket.send(self._rest)
            except OSError:  # no room; a relay that is gone shows when the tap is read
                return False
            self._rest = self._rest[sent:]
        return True

    def send(self, text: bytes) -> None:
        """Send a text, or its beginning; to be called if `is_ready`."""
        self._rest = memoryview(_LENGTH.pack(len(text)) + text)
        self.is_ready()
